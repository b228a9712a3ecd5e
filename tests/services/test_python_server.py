"""vLLM and SGLang: the planned commands, executed against stand-in modules that serve what they were told."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from nemo_evaluator.config import SglangService, VllmService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.services import plan_service, service_identity, start_services

MODULES = {"vllm": "vllm/entrypoints/cli/main.py", "sglang": "sglang/launch_server.py"}
SERVER = """
import http.server, json, os, sys
words = sys.argv[1:]
if words[0] == "serve":
    words[0] = "--model"
said = {flag: value for flag, value in zip(words[::2], words[1::2], strict=True)}
key = said.pop("--api-key")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ok = self.path == "/ready" or self.headers.get("Authorization") == f"Bearer {key}"
        self.send_response(200 if ok else 401)
        self.end_headers()
        wanted = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "EXTRA")}
        self.wfile.write(json.dumps({"said": said, "env": wanted, "setup": os.environ.get("SETUP")}).encode())
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        allowed = self.headers.get("Authorization") == f"Bearer {key}"
        known = asked["model"] == said["--served-model-name"]
        self.send_response(401 if not allowed else 200 if known else 404)
        self.end_headers()
http.server.HTTPServer((said["--host"], int(said["--port"])), Handler).serve_forever()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both packages, importable here and in every process started from here."""
    for module in MODULES.values():
        file = tmp_path / "packages" / module
        file.parent.mkdir(parents=True)
        file.write_text(SERVER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))


def service(kind: str, **settings: object) -> VllmService | SglangService:
    data = {
        "type": kind,
        "model": "org/model",
        "protocol": "chat_completions",
        "port": free_port(),
        **settings,
    }
    return (VllmService if kind == "vllm" else SglangService).model_validate(
        {"health_path": "/ready", **data}
    )


async def facts(wanted: Any, output: Path) -> dict[str, Any]:
    async with start_services(
        SimpleNamespace(services={"m": wanted}), output, say=lambda _: None
    ) as running:
        key = running["m"].api_key
        assert key is not None
        headers = {"Authorization": f"Bearer {key.reveal()}"}
        assert key.reveal() not in "\0".join(_arguments())
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{running['m'].url}/models") as refused:
                assert refused.status == 401
            async with session.get(f"{running['m'].url}/models", headers=headers) as answer:
                return json.loads(await answer.read())


def _arguments() -> list[str]:
    texts = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            texts.append(path.read_text(errors="replace"))
        except OSError:
            continue
    return texts


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("kind", "model", "sizes"),
    [
        (
            "vllm",
            "--model",
            ["--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"],
        ),
        ("sglang", "--model-path", ["--tp-size", "--pp-size", "--dp-size"]),
    ],
)
async def test_every_setting_reaches_the_server(
    kind: str, model: str, sizes: list[str], tmp_path: Path
) -> None:
    wanted = service(
        kind,
        tensor_parallel_size=2,
        pipeline_parallel_size=3,
        data_parallel_size=4,
        gpus=[1, 3, 4, 5, 6, 7],
        extra_args=["--max-model-len", "2048"],
        extra_env={"EXTRA": "a value"},
        setup_commands=["export SETUP='first one'"],
        pre_cmd='SETUP="$SETUP, then another"',
        served_model_name="shown",
    )
    found = await facts(wanted, tmp_path)
    said = found["said"]
    assert (
        said[model] == "org/model"
        and said["--served-model-name"] == "shown"
        and said["--host"] == "127.0.0.1"
    )
    assert [said[flag] for flag in sizes] == ["2", "3", "4"]
    assert said["--max-model-len"] == "2048"
    assert found["env"] == {"CUDA_VISIBLE_DEVICES": "1,3,4,5,6,7", "EXTRA": "a value"}
    assert found["setup"] == "first one, then another"


@pytest.mark.usefixtures("installed")
async def test_without_settings_none_are_sent(tmp_path: Path) -> None:
    found = await facts(service("vllm"), tmp_path)
    assert set(found["said"]) == {"--model", "--host", "--port", "--served-model-name"}
    assert found["said"]["--served-model-name"] == "m"


@pytest.mark.usefixtures("installed")
def test_several_nodes_need_a_cluster() -> None:
    with pytest.raises(UsageError, match=r"services\.m\.num_nodes") as caught:
        plan_service("m", service("vllm", num_nodes_per_instance=2))
    assert "slurm" in (caught.value.hint or "")


def test_a_server_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UsageError, match="sglang is not installed"):
        plan_service("m", service("sglang"))


def test_identity_knows_the_model_and_not_the_place() -> None:
    base = service_identity(service("vllm"))
    assert base == service_identity(
        service("vllm", gpus=2, tensor_parallel_size=2, startup_timeout=5)
    )
    assert base != service_identity(service("vllm", model="org/other"))
    assert base != service_identity(service("vllm", extra_args=["--quantization", "fp8"]))
    assert base != service_identity(service("sglang"))
