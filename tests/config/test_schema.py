"""The schema: defaults, both spellings of a setting, derived values, unique ids."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

import nemo_evaluator.config as public
from nemo_evaluator.config import (
    ApiService,
    BenchmarkConfig,
    EvalConfig,
    LlamaCppService,
    OutputConfig,
    VllmService,
    load_mapping,
    parse_eval_config,
)
from nemo_evaluator.core.errors import ConfigError

API = {"type": "api", "url": "http://h/v1/chat/completions", "protocol": "chat_completions"}
VLLM = {"type": "vllm", "model": "m", "protocol": "completions"}


def config(**parts: Any) -> EvalConfig:
    data: dict[str, Any] = {
        "services": {"m": API},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "simple", "service": "m"}}],
    }
    return parse_eval_config({**data, **parts})


def service(**fields: Any) -> ApiService:
    return ApiService.model_validate({**API, **fields})


def test_every_public_name_is_there() -> None:
    for name in public.__all__:  # type: ignore[attr-defined]
        assert getattr(public, name) is not None
    assert dir(public) == public.__all__  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        public.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_interceptors_and_verbose_may_stand_on_the_service() -> None:
    found = service(interceptors=[{"name": "logging"}], proxy_verbose=True)
    assert found.proxy is not None
    assert [interceptor.name for interceptor in found.proxy.interceptors] == ["logging"]
    assert found.proxy.verbose
    assert found.interceptors is None
    assert service(
        proxy={"extra_body": {"a": 1}}, interceptors=[{"name": "log_tokens"}]
    ).proxy.extra_body == {"a": 1}


def test_limits_of_the_proxy_are_limits_of_the_service() -> None:
    found = service(
        proxy={
            "request_timeout": 7,
            "max_retries": 1,
            "retry_on_status": [500],
            "max_concurrent_upstream": 3,
        }
    )
    assert found.timeouts.total == 7
    assert found.retry.max_retries == 1
    assert found.retry.on_status == [500]
    assert found.max_concurrent == 3
    assert ApiService.model_validate(found.model_dump()) == found
    plain = service()
    assert (plain.timeouts.total, plain.retry.max_retries, plain.max_concurrent) == (1800, 6, None)


@pytest.mark.parametrize(
    ("written", "mode"),
    [("write", "write"), ("read", "read"), (False, "off"), ({"mode": "read", "dir": "d"}, "read")],
)
def test_cache(written: Any, mode: str) -> None:
    assert service(proxy={"cache": written}).proxy.cache.mode == mode
    assert service(proxy={}).proxy.cache.mode == "off"


def test_exports_as_names_or_mappings() -> None:
    output = OutputConfig(export=["inspect", {"type": "mlflow", "tracking_uri": "sqlite:///x"}])
    assert output.export == ["inspect", "mlflow"]
    assert output.exporters == {"inspect": {}, "mlflow": {"tracking_uri": "sqlite:///x"}}
    assert OutputConfig(export="wandb", export_config={"wandb": {"group": "g"}}).exporters == {
        "wandb": {"group": "g"}
    }
    assert OutputConfig(export={"type": "wandb"}).export == ["wandb"]


def test_kinds_of_the_walkthrough() -> None:
    found = config(
        services={
            "m": API,
            "t": {"type": "trt_llm", "model": "m", "protocol": "completions"},
            "n": {"type": "nat_agent", "port": 9000},
        },
        benchmarks=[
            {"name": "a", "solver": {"type": "nat", "service": "n"}, "sandbox": {"type": "local"}},
            {
                "name": "b",
                "solver": {"type": "container", "service": "m", "uri": "container://i#t"},
            },
        ],
        cluster={"type": "ray"},
    )
    assert [found.services[name].type for name in "mtn"] == ["api", "trt_llm", "nat_agent"]
    assert found.cluster.type == "ray"


def test_derived_urls_and_models() -> None:
    found = config(
        services={
            "m": API,
            "named": {**API, "model": "x"},
            "v": VLLM,
            "served": {**VLLM, "served_model_name": "s", "port": 9},
            "l": {"type": "llama_cpp", "model": "smollm2-135m"},
            "g": {"type": "gym"},
            "u": {"type": "gym", "url": "http://gym"},
        }
    )
    assert found.base_url("m") == API["url"]
    assert found.base_url("v") == "http://localhost:8000/v1"
    assert found.base_url("served") == "http://localhost:9/v1"
    assert found.base_url("l") is None
    assert found.base_url("g") == "http://localhost:8000"
    assert found.base_url("u") == "http://gym"
    assert [found.model_id(name) for name in ("m", "named", "v", "served", "l")] == [
        "m",
        "x",
        "v",
        "s",
        "l",
    ]
    assert set(found.model_services()) == {"m", "named", "v", "served", "l"}


def test_the_same_benchmark_twice_gets_ids_of_its_own() -> None:
    solver = {"type": "simple", "service": "m"}
    names = [
        "gsm8k",
        "gsm8k",
        "gsm8k",
        "lm-eval://a/b",
        "lm-eval://a:b",
        "dir/bench.py",
        "dir/bench.py:toy",
        "bench",
    ]
    benchmarks: list[dict[str, Any]] = [{"name": name, "solver": solver} for name in names]
    benchmarks[1]["id"] = "gsm8k-2"
    assert [benchmark.key for benchmark in config(benchmarks=benchmarks).benchmarks] == [
        "gsm8k", "gsm8k-2", "gsm8k-3", "lm-eval___a_b", "lm-eval___a_b-2", "bench", "toy", "bench-2",
    ]  # fmt: skip


def test_a_sandbox_by_name_or_none() -> None:
    found = config(
        sandboxes={"code": {"type": "docker", "image": "i"}},
        benchmarks=[
            {"name": "a", "solver": {"type": "simple", "service": "m"}, "sandbox": name}
            for name in ("code", "none")
        ],
    )
    assert [benchmark.sandbox.type for benchmark in found.benchmarks] == ["docker", "none"]
    assert found.benchmarks[0].sandbox.image == "i"  # type: ignore[attr-defined]


def test_defaults_of_the_reference_are_kept() -> None:
    benchmark = config().benchmarks[0]
    assert isinstance(benchmark, BenchmarkConfig)
    assert (
        benchmark.repeats,
        benchmark.max_concurrent,
        benchmark.timeout,
        benchmark.shuffle_seed,
    ) == (1, 32, 1800, 42)
    assert (benchmark.max_system_retries, benchmark.skip_failed, benchmark.min_coverage) == (
        3,
        False,
        0.95,
    )
    vllm = VllmService.model_validate(VLLM)
    assert (vllm.port, vllm.health_path, vllm.startup_timeout, vllm.num_nodes) == (
        8000,
        "/health",
        600,
        1,
    )
    llama = LlamaCppService(type="llama_cpp", model="smollm2-135m")
    assert (llama.protocol, llama.context_size, llama.slots, llama.port, llama.backend) == (
        "chat_completions", 8192, 4, None, "auto",
    )  # fmt: skip
    output = config().output
    assert (output.dir, output.report, output.traffic) == ("./eval_results", ["markdown"], "none")


def test_secrets_are_never_written() -> None:
    found = config(
        services={
            "m": {
                **API,
                "api_key": "sk-hidden",
                "proxy": {"extra_headers": {"Authorization": "Bearer hid", "X-Team": "t"}},
            },
            "v": {**VLLM, "extra_env": {"HF_TOKEN": "hf-hidden", "MAX_TOKENS": "5"}},
        }
    )
    model, server = found.services["m"], found.services["v"]
    assert isinstance(model, ApiService)
    assert isinstance(server, VllmService)
    assert model.api_key is not None
    assert model.api_key.reveal() == "sk-hidden"
    assert server.extra_env["HF_TOKEN"] == "hf-hidden"
    dumped = found.model_dump()
    assert dumped["services"]["m"]["api_key"] == "***"
    assert dumped["services"]["m"]["proxy"]["extra_headers"] == {
        "Authorization": "***",
        "X-Team": "***",
    }
    assert dumped["services"]["v"]["extra_env"] == {"HF_TOKEN": "***", "MAX_TOKENS": "5"}
    assert "hid" not in found.model_dump_json()
    assert "sk-hidden" not in repr(found)


def test_numbers_from_the_environment_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEL_TEST_N", "7")
    benchmark = {
        "name": "a",
        "solver": {"type": "simple", "service": "m"},
        "max_problems": "${NEL_TEST_N}",
    }
    assert config(benchmarks=[benchmark]).benchmarks[0].max_problems == 7


def test_a_url_that_contradicts_the_protocol_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="implies chat_completions"):
        service(protocol="completions")
    loaded = load_mapping(
        {
            "services": {"m": {**API, "protocol": "responses"}},
            "benchmarks": [{"name": "a", "solver": {"type": "simple", "service": "m"}}],
        }
    )
    assert "implies chat_completions" in loaded.warnings[0]


def test_ignored_sandbox_settings_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="capture_cmd has no effect"):
        config(sandboxes={"s": {"type": "docker", "stateful": True, "capture_cmd": "x"}})


def test_a_job_shorter_than_its_start_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="exceed the walltime"):
        config(
            cluster={
                "type": "slurm",
                "walltime": "00:10:00",
                "node_pools": {"p": {"partition": "b"}},
            }
        )


def test_built_by_hand_references_are_checked_too() -> None:
    with pytest.raises(ValidationError, match="no service is called 'x'"):
        EvalConfig.model_validate(
            {
                "services": {},
                "benchmarks": [{"name": "a", "solver": {"type": "simple", "service": "x"}}],
            }
        )


def test_a_mapping_is_needed() -> None:
    with pytest.raises(ConfigError, match="must be a mapping"):
        parse_eval_config([])  # type: ignore[arg-type]
