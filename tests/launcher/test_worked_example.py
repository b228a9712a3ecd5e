"""The worked example of a SLURM config: every field of the plan that it becomes."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.launcher.compose import compose_launcher
from nemo_evaluator.launcher.translate import translate

_CONFIG = """
defaults:
  - execution: slurm/default
  - deployment: vllm
  - _self_
execution:
  hostname: login.site
  account: acct
  output_dir: /shared/out
  walltime: "04:00:00"
  num_nodes: 2
  num_instances: 2
  mounts: {mount_home: false}
deployment:
  checkpoint_path: /ckpt/m-nvfp4
  hf_model_handle: null
  served_model_name: m
  tensor_parallel_size: 4
  extra_args: "--max-model-len 131072"
  env_vars: {HF_TOKEN: host:HF_TOKEN}
evaluation:
  nemo_evaluator_config:
    config:
      params: {temperature: 0.6, top_p: 0.95, max_new_tokens: 32768, parallelism: 32, request_timeout: 3600}
    target:
      api_endpoint:
        adapter_config: {process_reasoning_traces: true, params_to_add: {chat_template_kwargs: {enable_thinking: true}}}
  tasks:
    - name: ns_gpqa
      nemo_evaluator_config: {config: {params: {extra: {num_repeats: 16}}}}
"""


def test_the_worked_example(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(_CONFIG)
    translated = translate(compose_launcher(file), prefer="native")
    translated.check()
    assert translated.config == {
        "services": {
            "model": {
                "type": "vllm",
                "model": "/ckpt/m-nvfp4",
                "container_mounts": ["/ckpt/m-nvfp4:/checkpoint:ro"],
                "served_model_name": "m",
                "port": 8000,
                "image": "vllm/vllm-openai:latest",
                "tensor_parallel_size": 4,
                "pipeline_parallel_size": 1,
                "data_parallel_size": 1,
                "num_instances": 2,
                "node_pool": "gpu",
                "startup_timeout": 14400,
                "health_path": "/health",
                "extra_args": [
                    *(
                        "--trust-remote-code",
                        "--gpu-memory-utilization",
                        "0.95",
                        "--max-model-len",
                        "131072",
                    ),
                ],
                "extra_env": {"HF_TOKEN": "${HF_TOKEN}"},
                "timeouts": {"total": 3600, "first_byte": 3600},
                "protocol": "chat_completions",
                "proxy": {
                    "interceptors": [
                        {
                            "name": "payload_modifier",
                            "config": {
                                "params_to_add": {"chat_template_kwargs": {"enable_thinking": True}}
                            },
                        },
                        {"name": "reasoning"},
                    ]
                },
            }
        },
        "benchmarks": [
            {
                "name": "gpqa",
                "id": "ns_gpqa.0",
                "replaces": "nemo_skills.ns_gpqa",
                "solver": {
                    "type": "simple",
                    "service": "model",
                    "generation": {"temperature": 0.6, "top_p": 0.95, "max_tokens": 32768},
                },
                "max_concurrent": 32,
                "timeout": 3600,
                "repeats": 16,
            }
        ],
        "cluster": {
            "type": "slurm",
            "hostname": "login.site",
            "account": "acct",
            "node_pools": {"gpu": {"partition": "batch", "ntasks_per_node": 1, "gres": "gpu:8"}},
            "walltime": "04:00:00",
            "max_walltime": "120:00:00",
            "sbatch_extra_flags": {"exclusive": "true"},
            "mount_home": False,
        },
        "output": {"dir": "/shared/out"},
    }
