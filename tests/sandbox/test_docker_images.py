"""Images: built and pulled once, and the least used of ours removed when the disk runs full."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_evaluator.config import DockerSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._docker_api import DockerApi
from nemo_evaluator.sandbox.base import ImageBuildRequest, ImageSpec
from nemo_evaluator.sandbox.docker_provider import ImageStore
from nemo_evaluator.sandbox.manager import SandboxManager

BASE = "nel-test/python:bookworm"


@pytest.fixture
async def api() -> AsyncIterator[DockerApi]:
    made = DockerApi()
    yield made
    await made.aclose()


@pytest.mark.needs("docker")
async def test_images_are_built_used_and_pruned(api: DockerApi, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nCOPY hello /hello\n")
    (tmp_path / "hello").write_text("hi")
    names = [f"nel-test/built-{uuid.uuid4().hex[:8]}:1" for _ in range(2)]
    store = ImageStore(api, least_free=0.0)
    for name in names:
        await store.build(name, tmp_path)
    assert await store.has(names[0])
    store.used(names[0])
    assert await store.prune() == []
    # A disk of which nothing is ever free enough: all of ours go, the least recently used first; others' stay.
    full = ImageStore(api, least_free=2.0)
    assert await full.prune() == [names[1], names[0]]
    assert not await store.has(names[0])
    assert await store.has(BASE)
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nRUN exit 7\n")
    with pytest.raises(SandboxError, match="7"):
        await store.build(names[0], tmp_path)


@pytest.mark.needs("docker")
async def test_a_manager_builds_what_is_missing_and_pulls_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pulled: list[str] = []

    async def pull(self: DockerApi, path: str, **query: object) -> None:
        pulled.append(str(query["fromImage"]))
        await asyncio.sleep(0.1)
        raise SandboxError("no registry here")

    monkeypatch.setattr(DockerApi, "stream", pull)
    manager = SandboxManager(
        DockerSandbox(type="docker", image_template="nel-test/{kind}:1", network="none"), "run"
    )
    built: list[ImageSpec] = []

    class Environment:
        async def sandbox_specs(self) -> list[SandboxSpec] | None:
            return [SandboxSpec(image=BASE)]

        async def image_build_requests(self) -> list[ImageBuildRequest] | None:
            return [
                ImageBuildRequest([ImageSpec(BASE), ImageSpec("nel-test/no-such:1")], built.extend)
            ]

    try:
        await manager.prepare(Environment())
        assert [spec.image for spec in built] == ["nel-test/no-such:1"]
        assert pulled == []
        outcomes = await asyncio.gather(
            *(manager.ensure_image("nel-test/x:1") for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(outcome, SandboxError) for outcome in outcomes)
        assert pulled == ["nel-test/x"]
        assert manager.resolve(SandboxSpec(image="plain"), {"kind": "k"}).image == "nel-test/k:1"
        assert manager.resolve(SandboxSpec(image="plain"), {}).image == "plain"
    finally:
        await manager.close()


async def test_no_engine_is_said_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    manager = SandboxManager(DockerSandbox(type="docker", image="x"), "run")
    with pytest.raises(SandboxError, match="cannot reach the docker engine") as caught:
        await manager.acquire(SandboxSpec(image="x"))
    assert "type: local" in (caught.value.hint or "")
    await manager.close()
    monkeypatch.setenv("DOCKER_HOST", "ssh://somewhere")
    with pytest.raises(SandboxError, match="cannot be used"):
        DockerApi()


@pytest.mark.needs("docker")
async def test_an_unknown_runtime_is_refused_before_the_first_problem() -> None:
    manager = SandboxManager(DockerSandbox(type="docker", image=BASE, runtime="runc"), "run")
    await manager.check()
    manager._provider._settings = type("S", (), {"runtime": "nope"})()  # type: ignore[attr-defined]
    manager._tasks.clear()
    with pytest.raises(SandboxError, match="no runtime 'nope'"):
        await manager.check()
    await manager.close()
