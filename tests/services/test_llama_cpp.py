"""The embedded model for real: start, health, an answer, stop; and its identity."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

from nemo_evaluator.config import LlamaCppService
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services import service_identity, start_services
from nemo_evaluator.services.base import Site

KIND = SERVICES.build("llama_cpp")


def embedded(**settings: object) -> LlamaCppService:
    return LlamaCppService.model_validate(
        {
            "type": "llama_cpp",
            "model": "smollm2-135m",
            "context_size": 512,
            "slots": 2,
            "threads": 1,
            **settings,
        }
    )


async def ask(url: str, headers: dict[str, str], question: str) -> tuple[int, JsonDict]:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 12,
        "temperature": 0,
    }
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/chat/completions", json=body) as response,
    ):
        return response.status, await response.json()


async def answer_of(service: LlamaCppService, output: Path) -> JsonDict:
    async with start_services(
        SimpleNamespace(services={"tiny": service}), output, say=lambda _: None
    ) as running:
        tiny = running["tiny"]
        assert tiny.api_key is not None
        key = tiny.api_key.reveal()
        code, body = await ask(
            tiny.url, {"Authorization": f"Bearer {key}"}, "What is 2+2? Answer with one number."
        )
        assert code == 200
        refused, _ = await ask(tiny.url, {}, "Hello")
        assert refused == 401
    log = (output / "logs" / "server-tiny.log").read_text(errors="replace")
    assert key not in log
    return body


@pytest.mark.needs("model", "xllamacpp")
async def test_xllamacpp_answers(tmp_path: Path) -> None:
    body = await answer_of(embedded(backend="xllamacpp"), tmp_path)
    assert body["model"] == "tiny"
    assert body["choices"][0]["message"]["content"].strip()
    assert body["usage"]["completion_tokens"] > 0


@pytest.mark.needs("model", "llama_server")
async def test_llama_server_answers(tmp_path: Path) -> None:
    body = await answer_of(embedded(backend="llama-server", extra_args=["--no-warmup"]), tmp_path)
    assert body["choices"][0]["message"]["content"].strip()


@pytest.mark.needs("model")
def test_the_binary_is_preferred_and_gets_the_extra_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "llama-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("NEL_LLAMA_SERVER", str(binary))
    launch = KIND.plan("tiny", embedded(extra_args=["--no-warmup"], port=5001), Site())
    assert launch.argv[0] == str(binary)
    assert launch.argv[-1] == "--no-warmup"
    assert launch.url == "http://127.0.0.1:5001/v1"
    # The context is that of one slot; the server divides what it gets among its slots.
    assert launch.argv[launch.argv.index("--ctx-size") + 1] == "1024"
    assert launch.api_key is not None
    assert not any(launch.api_key.reveal() in word for word in launch.argv)


@pytest.mark.needs("model", "xllamacpp")
def test_without_the_binary_the_library_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEL_LLAMA_SERVER", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert KIND.plan("tiny", embedded(), Site()).argv[0] == sys.executable
    with pytest.raises(UsageError, match="extra_args"):
        KIND.plan("tiny", embedded(extra_args=["--no-warmup"]), Site())
    with pytest.raises(UsageError, match="not on PATH"):
        KIND.plan("tiny", embedded(backend="llama-server"), Site())


def test_identity_is_the_weights_not_the_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gguf", tmp_path / "b.gguf"
    first.write_bytes(b"weights")
    second.write_bytes(b"weights")
    base = service_identity(embedded(model=str(first)))
    assert base == service_identity(
        embedded(model=str(second), port=5001, threads=2, slots=4, startup_timeout=1)
    )
    assert base != service_identity(embedded(model=str(first), context_size=1024))
    status = second.stat()
    second.write_bytes(b"changed")
    os.utime(second, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert base != service_identity(embedded(model=str(second)))


def test_a_checksum_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "a.gguf"
    weights.write_bytes(b"weights")
    first = service_identity(embedded(model=str(weights)))
    monkeypatch.setattr(
        "nemo_evaluator.services.llama_cpp.file_sha256", lambda path: pytest.fail("computed again")
    )
    assert service_identity(embedded(model=str(weights))) == first


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("smollm2-135", "smollm2-135m"),
        ("gemma3-270m", "nel models pull"),
        ("/no/x.gguf", "models ls"),
    ],
)
def test_a_model_that_is_not_there_says_the_fix(
    model: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEL_MODELS_DIR", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        KIND.plan("tiny", embedded(model=model), Site())
    assert hint in (caught.value.hint or "")
