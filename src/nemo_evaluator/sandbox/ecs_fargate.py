"""``ecs_fargate``: a Fargate task per sandbox, with an exec server inside that is reached through an SSH tunnel."""

import asyncio
import base64
import contextlib
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol

import aiohttp
from pydantic import Field

from nemo_evaluator.config.fields import Digits, Later, Port, Positive, no_items
from nemo_evaluator.config.sandbox_base import ImageSandbox
from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox import _fresh
from nemo_evaluator.sandbox._backend import Backend, Emit, Job
from nemo_evaluator.sandbox._ecs_tunnel import SshSidecar, Tunnel
from nemo_evaluator.sandbox.base import Exit, OutsideEndpoint, refuse_volumes, volumes_of

_START: Final = 300.0
_ATTEMPTS: Final = 4
_CAP: Final = 64 * 2**20


class EcsFargateConfig(ImageSandbox):
    """An AWS ECS Fargate task. With a `region` and no `cluster`, settings are found in AWS SSM; these win."""

    type: Literal["ecs_fargate"] = "ecs_fargate"
    container_port: Later[Port] = Field(None, description="Port that the container serves.")
    region: str | None = Field(None, description="AWS region.")
    cluster: str | None = Field(None, description="ECS cluster.")
    subnets: list[str] = Field(default_factory=no_items, description="Subnets.")
    security_groups: list[str] = Field(default_factory=no_items, description="Security groups.")
    assign_public_ip: bool | None = Field(None, description="Give the task a public address.")
    cpu: Digits = Field("4096", description="CPU units.")
    memory: Digits = Field("8192", description="Memory in MiB.")
    ephemeral_storage_gib: Positive | None = Field(None, description="Disk in GiB.")
    execution_role_arn: str | None = Field(None, description="Execution role.")
    task_role_arn: str | None = Field(None, description="Task role.")
    log_group: str | None = Field(None, description="CloudWatch log group.")
    log_stream_prefix: str | None = Field(None, description="Prefix of log streams.")
    max_task_lifetime_sec: Positive | None = Field(None, description="Longest life of a task; null: 14400.")
    ssh_sidecar: SshSidecar | None = Field(None, description="SSH sidecar.")
    s3_bucket: Later[str] = Field(None, description="Bucket for transfers.")
    s3_prefix: Later[str] = Field(None, description="Prefix in the bucket.")
    ecr_repository: Later[str] = Field(None, description="Repository of built images.")
    codebuild_project: Later[str] = Field(None, description="CodeBuild project.")
    codebuild_service_role: Later[str] = Field(None, description="CodeBuild role.")
    codebuild_build_timeout: Later[Positive] = Field(None, description="Minutes of a build; null: 60.")
    codebuild_compute_type: Later[str] = Field(None, description="CodeBuild size; null: BUILD_GENERAL1_MEDIUM.")
    dockerhub_secret_arn: Later[str] = Field(None, description="Secret with Docker Hub credentials.")
    efs_filesystem_id: Later[str] = Field(None, description="EFS file system.")
    efs_access_point_id: Later[str] = Field(None, description="EFS access point.")
    ssm_project: str = Field("harbor", description="Project whose settings are read from SSM.")


class Tasks(Protocol):
    """Who runs the task of a sandbox."""

    async def run_task(self, spec: SandboxSpec, name: str, token: str) -> str:
        """Start a task; its ARN."""

    async def wait_running(self, task: str) -> str:
        """Wait until a task runs; its address."""

    async def is_running(self, task: str) -> bool:
        """Whether a task runs."""

    async def connect(self, address: str, outside: list[str]) -> Tunnel:
        """A tunnel to a task."""

    async def stop_task(self, task: str) -> None:
        """Stop a task."""


@dataclass(eq=False)
class EcsSandbox(Backend):
    """One task. Commands have ids, so that one whose answer was lost on the way is not run twice."""

    provider: Tasks | None = None
    kind: ClassVar[str] = "ecs_fargate"
    _needs_image: ClassVar[bool] = True
    _task: str = field(default="", init=False)
    _tunnel: Tunnel | None = field(default=None, init=False)
    _url: str = field(default="", init=False)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(24), init=False)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        if self.provider is None:
            raise SandboxError("an ecs_fargate sandbox is made by its manager")
        folders = [volume for volume in volumes_of(self.spec) if volume.host_path]
        refuse_volumes("a Fargate task cannot mount a folder of this machine", folders)
        self._task = await self.provider.run_task(self.spec, self.name, self._token)
        address = await self.provider.wait_running(self._task)
        self._tunnel = await self.provider.connect(address, [one.url for one in outside_endpoints])
        self._url = self._tunnel.url
        await self._reach(outside_endpoints)
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        await self._wait_healthy()

    async def _prepare(self) -> None:
        scratch = [volume.container_path for volume in volumes_of(self.spec) if not volume.host_path]
        await self.exec(["mkdir", "-p", self.spec.workdir, *scratch], cwd="/", timeout=60)
        await super()._prepare()

    async def stop(self) -> None:
        """Stop the task and close the tunnel."""
        self.started = False
        session, self._session = self._session, None
        tunnel, self._tunnel = self._tunnel, None
        task, self._task = self._task, ""
        if session is not None:
            await session.close()
        if tunnel is not None:
            await tunnel.close()
        if task and self.provider is not None:
            await self.provider.stop_task(task)

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where the image has a bash."""
        chosen = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
        return ["sh", "-c", chosen, "sh", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        """The far end of the reverse tunnel."""
        return self._tunnel.inside(url) if self._tunnel is not None else url

    async def _run(self, job: Job, emit: Emit) -> Exit:
        argv, stdin = _fresh.prepared(job)
        data = stdin if stdin is None or isinstance(stdin, bytes) else await asyncio.to_thread(stdin.read)
        request = {
            "id": uuid.uuid4().hex,
            "argv": argv,
            "cwd": job.cwd,
            "env": job.env,
            "timeout": job.timeout,
            "user": job.user,
            "background": job.background,
            "stdin": base64.b64encode(data).decode() if data else "",
            "max_bytes": _CAP,
        }
        answer = await self._post(request, job.timeout + 30)
        for stream in ("stdout", "stderr"):
            output = base64.b64decode(answer[stream])
            if output:
                emit(stream, output)
        return Exit(answer["code"], timed_out=bool(answer.get("timed_out")))

    async def _post(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to a request; sent again under the same id when the connection broke."""
        limit = aiohttp.ClientTimeout(total=timeout)
        last: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if self._session is None:
                break
            try:
                async with self._session.post(f"{self._url}/exec", json=request, timeout=limit) as response:
                    if response.status != 200:
                        raise SandboxError(f"the exec server of the task answered {response.status}")
                    answer: dict[str, Any] = await response.json(content_type=None)
                    return answer
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                last = error
                if self.provider is not None and not await self.provider.is_running(self._task):
                    raise SandboxError("the task stopped while a command ran in it") from error
                await asyncio.sleep(0.5 * 2**attempt)
        raise SandboxError(f"the exec server of the task cannot be reached: {last}")

    async def _wait_healthy(self) -> None:
        assert self._session is not None
        try:
            async with asyncio.timeout(_START):
                while True:
                    with contextlib.suppress(aiohttp.ClientError, OSError):
                        async with self._session.get(f"{self._url}/health") as response:
                            if response.status == 200:
                                return
                    await asyncio.sleep(0.5)
        except TimeoutError as error:
            raise SandboxError(f"the exec server of the task did not answer in {_START:g} s") from error


KIND: Final = Kind(EcsFargateConfig, "nemo_evaluator.sandbox.ecs_provider:EcsProvider")
