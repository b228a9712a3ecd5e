"""Preflight beyond the config: mounts, contexts, private images, endpoints and judges that answer; and .env files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from nel_support import Nel, Serve, Sums, api, bench, nel, serve, sums

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.preflight.site_checks import check_site, disk_cautions, registry_cautions

__all__ = ["nel", "serve", "sums"]


def test_what_the_machine_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nemo_evaluator.preflight.site_checks._gpus", lambda: 2)
    server = {
        "type": "vllm",
        "model": "/no/such/checkpoint",
        "tensor_parallel_size": 4,
        "container_mounts": [f"{tmp_path}:/here", "/no/such/folder:/there:ro"],
        "extra_args": ["--max-model-len", "8192"],
        "generation": {"max_tokens": 4096},
    }
    solver = {"type": "simple", "service": "model", "generation": {"max_tokens": 8192}}
    benchmarks = [bench("gsm8k"), {"name": "gpqa", "solver": solver}]
    config = parse_eval_config({"services": {"model": server}, "benchmarks": benchmarks})
    assert [".".join(map(str, path)) for path, _, _ in check_site(config)] == [
        "benchmarks.1.solver.generation.max_tokens",
        "services.model.container_mounts.1",
        "services.model.model",
        "services.model.tensor_parallel_size",
    ]


@pytest.mark.parametrize(
    ("image", "private"),
    [
        ("python:3.12-slim", False),
        ("vllm/vllm-openai:v0.11.0", False),
        ("nvcr.io/nvidia/vllm:25.10-py3", False),
        ("nvcr.io/nim/meta/llama-3.1-8b:1", True),
        ("registry.example.com/team/server:1", True),
    ],
)
def test_only_private_images_want_credentials(
    image: str, private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    services = {"model": {"type": "vllm", "model": "m", "image": image}}
    config = parse_eval_config({"services": services, "benchmarks": [bench("gsm8k")]})
    assert bool(registry_cautions(config)) is private
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(
        '{"auths": {"registry.example.com": {}, "nvcr.io": {}}}'
    )
    assert registry_cautions(config) == []


def test_ping_finds_wrong_keys_models_and_silence(nel: Nel, serve: Serve, sums: Sums) -> None:
    model = serve("x", models=["right"], api_key="right-key-0123456789")
    judge = serve("x", models=["other-judge"])
    services = {
        "model": api(model.url, model="right", api_key="wrong-key-0123456789"),
        "judge": api(judge.url, model="other-jugde"),
        "dead": api("http://127.0.0.1:9/v1"),
    }
    file = nel.config("c.yaml", services=services, benchmarks=[bench(sums(2))], output={"dir": "o"})
    nel("config", "check", file)
    said = nel("config", "check", file, "--ping", code=1).stderr
    assert "services.model.api_key" in said
    assert "services.judge.model" in said and "other-jugde" in said
    assert "services.dead.url" in said
    assert "wrong-key" not in said
    assert (
        nel(
            "config", "check", file, "--ping", "-O", "services.judge.model=other-judge", code=1
        ).stderr.count("judge")
        == 0
    )
    services["model"]["api_key"] = "right-key-0123456789"
    right = {"model": services["model"], "judge": services["judge"] | {"model": "other-judge"}}
    file = nel.config("c.yaml", services=right, benchmarks=[bench(sums(2))], output={"dir": "o"})
    assert "answered: model, judge" in nel("config", "check", file, "--ping").stdout
    assert '"answered": [' in nel("config", "check", file, "--ping", "--json").stdout
    assert "answered" not in nel("config", "check", file).stdout


def test_env_files_hold_what_the_config_needs(nel: Nel) -> None:
    services = {
        "model": api("${URL:-http://h/v1}", api_key="${MY_KEY}"),
        "judge": api("http://h", api_key="${JUDGE}"),
    }
    file = nel.config("c.yaml", services=services, benchmarks=[bench("gpqa"), bench("gsm8k")])
    lines = nel("config", "env", file).stdout.splitlines()
    assert [line for line in lines if not line.startswith("# V")] == [
        "# Gated dataset of gpqa: accept its terms on the hub first.",
        "HF_TOKEN=",
        "MY_KEY=",
        "JUDGE=",
        "# URL=",
    ]


def test_a_disk_that_is_nearly_full_is_a_caution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {"services": {"model": api("http://127.0.0.1:9/v1")}, "benchmarks": [bench("gsm8k")]}
    config = parse_eval_config(data | {"output": {"dir": str(tmp_path / "not" / "there")}})
    assert disk_cautions(config) == []
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=50 * 1024**2))
    assert disk_cautions(config) == [
        f"only 50 MB are free in {tmp_path}; free some, or write elsewhere: -o FOLDER"
    ]
