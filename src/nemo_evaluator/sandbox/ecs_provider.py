"""Fargate sandboxes, one task each, and the shared resources of a run: settings, task definitions and a reaper."""

import asyncio
import base64
import contextlib
import hashlib
import json
import secrets
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import aiohttp

from nemo_evaluator.core.errors import SandboxError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.lazy import optional
from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Backend, BackendCommand, Emit
from nemo_evaluator.sandbox._ecs_tunnel import Tunnel, sidecar
from nemo_evaluator.sandbox.base import (
    Exit,
    OutsideEndpoint,
    Provider,
    Sandbox,
    refuse_volumes,
    volumes_of,
)
from nemo_evaluator.sandbox.ecs_fargate import EcsFargateConfig

T = TypeVar("T")
_LIFETIME: Final = 14_400
_START: Final = 300.0
_ATTEMPTS: Final = 4
_CAP: Final = 64 * 2**20
_SERVER: Final = Path(__file__).with_name("_ecs_server.py")
_STOP: Final = (
    "import boto3, sys; "
    "boto3.client('ecs', region_name=sys.argv[1]).stop_task(cluster=sys.argv[2], task=sys.argv[3], reason='nel: gone')"
)
# Settings that AWS SSM may hold.
_DISCOVERED: Final = (
    "cluster",
    "subnets",
    "security_groups",
    "assign_public_ip",
    "execution_role_arn",
    "task_role_arn",
    "log_group",
    "ssh_sidecar",
)


@dataclass(eq=False)
class EcsSandbox(Backend):
    """One task. Commands have ids, so that a command whose answer was lost does not run twice."""

    tasks: "EcsProvider" = field(kw_only=True)
    kind: ClassVar[str] = "ecs_fargate"
    _needs_image: ClassVar[bool] = True
    _task: str = field(default="", init=False)
    _tunnel: Tunnel | None = field(default=None, init=False)
    _token: str = field(default_factory=lambda: secrets.token_urlsafe(24), init=False)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)

    async def _open(self, outside_endpoints: Sequence[OutsideEndpoint]) -> None:
        """Start a task, connect to it through a tunnel, and wait for its exec server."""
        folders = [volume for volume in volumes_of(self.spec) if volume.host_path]
        refuse_volumes("a Fargate task cannot mount a folder of this machine", folders)
        self._task = await self.tasks.run_task(self.spec, self.name, self._token)
        self._ending.push_async_callback(self.tasks.stop_task, self._task)
        address = await self.tasks.wait_running(self._task)
        urls = [endpoint.url for endpoint in outside_endpoints]
        self._tunnel = await self.tasks.connect(address, urls)
        self._ending.push_async_callback(self._tunnel.close)
        await self._reach(outside_endpoints)
        self._session = aiohttp.ClientSession(headers={"Authorization": f"Bearer {self._token}"})
        self._ending.push_async_callback(self._session.close)
        await self._wait_healthy()

    async def _prepare(self) -> None:
        scratch: list[str] = []
        for volume in volumes_of(self.spec):
            if not volume.host_path:
                scratch.append(volume.container_path)
        await self.exec(["mkdir", "-p", self.spec.workdir, *scratch], cwd="/", timeout=60)
        await super()._prepare()

    def shell(self, command: str) -> list[str]:
        """``bash -c`` where the image has a bash."""
        chosen = 'command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
        return ["sh", "-c", chosen, "sh", command]

    def resolve_outside_endpoint(self, url: str) -> str:
        """The address of the reverse tunnel inside the task."""
        if self._tunnel is not None:
            return self._tunnel.inside(url)
        return url

    async def _run(self, job: BackendCommand, emit: Emit) -> Exit:
        """Run a command through the exec server of the task."""
        stdin = job.stdin or b""
        if not isinstance(stdin, bytes):
            stdin = await asyncio.to_thread(stdin.read)
        request: dict[str, Any] = {
            "id": uuid.uuid4().hex,
            "argv": job.argv,
            "cwd": job.cwd,
            "env": job.env,
            "timeout": job.timeout,
            "user": job.user,
            "background": job.background,
            "max_bytes": _CAP,
            "stdin": base64.b64encode(stdin).decode(),
        }
        answer = await self._post(request, job.timeout + 30)
        for stream in ("stdout", "stderr"):
            if answer[stream]:
                emit(stream, base64.b64decode(answer[stream]))
        return Exit(answer["code"], timed_out=bool(answer.get("timed_out")))

    async def _post(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request, again under the same id when the connection breaks. Raises SandboxError when all fail."""
        limit = aiohttp.ClientTimeout(total=timeout)
        last_error: Exception | None = None
        for attempt in range(_ATTEMPTS):
            if self._session is None or self._session.closed or self._tunnel is None:
                break
            try:
                async with self._session.post(
                    f"{self._tunnel.url}/exec", json=request, timeout=limit
                ) as response:
                    if response.status != 200:
                        raise SandboxError(
                            f"the exec server of the task answered {response.status}"
                        )
                    answer: dict[str, Any] = await response.json(content_type=None)
                    return answer
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                last_error = error
                task = await self.tasks.describe(self._task)
                if task.get("lastStatus") != "RUNNING":
                    raise SandboxError("the task stopped while a command ran in it") from error
                await asyncio.sleep(0.5 * 2**attempt)
        raise SandboxError(f"the exec server of the task cannot be reached: {last_error}")

    async def _wait_healthy(self) -> None:
        """Wait until the exec server answers. Raises SandboxError when it does not in time."""
        assert self._session is not None
        assert self._tunnel is not None
        try:
            async with asyncio.timeout(_START):
                while True:
                    with contextlib.suppress(aiohttp.ClientError, OSError):
                        async with self._session.get(f"{self._tunnel.url}/health") as response:
                            if response.status == 200:
                                return
                    await asyncio.sleep(0.5)
        except TimeoutError as error:
            raise SandboxError(
                f"the exec server of the task did not answer in {_START:g} s"
            ) from error


class EcsProvider(Provider):
    """Makes Fargate sandboxes in one cluster. Fargate pulls an image when a task starts."""

    no_builds = ("images are not built for ecs_fargate", "push them to a registry, then name them")

    def __init__(self, config: EcsFargateConfig, run_id: str) -> None:
        super().__init__(config, run_id)
        self._ecs: Any = aws_client("ecs", config.region)
        self._definitions: dict[str, asyncio.Task[Any]] = {}

    async def check(self) -> None:
        """Complete the settings, and check that the cluster is active.

        Raises:
            SandboxError: A setting is missing, or the cluster is not active.
        """
        if self._config.region and not self._config.cluster:
            await self._complete_from_ssm()
        config = self._config
        missing: list[str] = []
        for name in ("cluster", "subnets", "ssh_sidecar"):
            if not getattr(config, name):
                missing.append(name)
        if missing:
            raise SandboxError(
                f"an ecs_fargate sandbox needs {', '.join(missing)}",
                hint="set them, or set region and let them be found in SSM",
            )
        answer = await _call(self._ecs.describe_clusters, clusters=[config.cluster])
        if not any(cluster["status"] == "ACTIVE" for cluster in answer["clusters"]):
            raise SandboxError(f"ECS has no active cluster {config.cluster!r} in {config.region}")

    async def _complete_from_ssm(self) -> None:
        """Take the settings that the config leaves open from AWS SSM."""
        ssm: Any = aws_client("ssm", self._config.region)
        parameter = f"/{self._config.ssm_project}/ecs-sandbox/config"
        answer = await _call(ssm.get_parameter, Name=parameter)
        discovered = json.loads(answer["Parameter"]["Value"])
        missing: dict[str, Any] = {}
        for key in _DISCOVERED:
            if discovered.get(key) and not getattr(self._config, key):
                missing[key] = discovered[key]
        configured = self._config.model_dump(exclude_unset=True)
        self._config = EcsFargateConfig(**missing, **configured)

    def create(self, spec: SandboxSpec) -> Sandbox:
        """Create a sandbox, without starting its task."""
        return EcsSandbox(spec, self._run_id, tasks=self)

    async def run_task(self, spec: SandboxSpec, name: str, token: str) -> str:
        """Start a task.

        Args:
            spec: The sandbox that the problem asks for.
            name: The name of the sandbox.
            token: The token of its exec server: an override, since task definitions are shared.

        Returns:
            The ARN of the task.

        Raises:
            SandboxError: ECS did not start it.
        """
        definition = await self._definition(spec)
        config = self._config
        environment = [{"name": "NEL_EXEC_TOKEN", "value": token}]
        answer = await _call(
            self._ecs.run_task,
            cluster=config.cluster,
            taskDefinition=definition,
            launchType="FARGATE",
            count=1,
            clientToken=name,
            startedBy=name,
            overrides={"containerOverrides": [{"name": "main", "environment": environment}]},
            tags=[
                {"key": "nel.run_id", "value": self._run_id or "-"},
                {"key": "nel.sandbox", "value": name},
            ],
            networkConfiguration={
                "awsvpcConfiguration": {
                    "subnets": config.subnets,
                    "securityGroups": config.security_groups,
                    "assignPublicIp": "DISABLED" if config.assign_public_ip is False else "ENABLED",
                }
            },
        )
        if not answer["tasks"]:
            failures = answer.get("failures", [])
            reasons = "; ".join(str(failure.get("reason")) for failure in failures)
            raise SandboxError(f"ECS did not start a task: {reasons or 'no reason given'}")
        arn = str(answer["tasks"][0]["taskArn"])
        stop = [sys.executable, "-c", _STOP, config.region or "", config.cluster or "", arn]
        await self._reaper.watch_command(arn, stop, kind="ecs_fargate", run_id=self._run_id)
        return arn

    async def wait_running(self, task: str) -> str:
        """Wait until a task runs, and return its address. Raises SandboxError when it stops or takes too long."""
        try:
            async with asyncio.timeout(_START):
                pause = 1.0
                while True:
                    description = await self.describe(task)
                    status = description.get("lastStatus")
                    if status == "RUNNING":
                        return await self._address(description)
                    if status in ("STOPPED", "DEPROVISIONING") or not description:
                        reason = description.get("stoppedReason") or "no reason given"
                        raise SandboxError(f"the task stopped: {reason}")
                    await asyncio.sleep(pause)
                    pause = min(15.0, pause * 1.5)
        except TimeoutError as error:
            raise SandboxError(f"the task did not run within {_START:g} s") from error

    async def _address(self, task: dict[str, Any]) -> str:
        """The public address of a task if it has one, else the private one."""
        details: dict[str, Any] = {}
        for attachment in task.get("attachments", []):
            for detail in attachment.get("details", []):
                details[detail["name"]] = detail["value"]
        if self._config.assign_public_ip is not False and "networkInterfaceId" in details:
            ec2: Any = aws_client("ec2", self._config.region)
            interface_ids = [details["networkInterfaceId"]]
            answer = await _call(ec2.describe_network_interfaces, NetworkInterfaceIds=interface_ids)
            for interface in answer["NetworkInterfaces"]:
                public_ip = interface.get("Association", {}).get("PublicIp")
                if public_ip:
                    return str(public_ip)
        if "privateIPv4Address" not in details:
            raise SandboxError("the task has no network address")
        return str(details["privateIPv4Address"])

    async def stop_task(self, task: str) -> None:
        """Stop a task; it may have stopped already."""
        with contextlib.suppress(SandboxError):
            await _call(
                self._ecs.stop_task, cluster=self._config.cluster, task=task, reason="nel: done"
            )
        await self._reaper.forget(task)

    async def connect(self, address: str, outside: list[str]) -> Tunnel:
        """Open the SSH tunnel."""
        assert self._config.ssh_sidecar is not None
        keys: Any = aws_client("secretsmanager", self._config.region)
        secret = await _call(
            keys.get_secret_value, SecretId=self._config.ssh_sidecar.private_key_secret_arn
        )
        tunnel = Tunnel(address, self._config.ssh_sidecar, secret["SecretString"], outside=outside)
        await tunnel.open()
        return tunnel

    async def describe(self, task: str) -> dict[str, Any]:
        """Return the description of a task by ECS; empty for a task that ECS no longer knows."""
        answer: Any = await _call(
            self._ecs.describe_tasks, cluster=self._config.cluster, tasks=[task]
        )
        tasks: list[dict[str, Any]] = answer["tasks"]
        return tasks[0] if tasks else {}

    async def _definition(self, spec: SandboxSpec) -> str:
        payload = self._payload(spec)
        key = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()[:24]
        if key not in self._definitions:
            registering = _call(
                self._ecs.register_task_definition, family=f"ecs-sandbox-{key}", **payload
            )
            self._definitions[key] = asyncio.ensure_future(registering)
        answer = await asyncio.shield(self._definitions[key])
        return str(answer["taskDefinition"]["taskDefinitionArn"])

    def _payload(self, spec: SandboxSpec) -> dict[str, Any]:
        """Build the task definition of a problem: its container, and the sidecar of the tunnel."""
        config = self._config
        assert config.ssh_sidecar is not None
        code = base64.b64encode(_SERVER.read_bytes()).decode()
        port = config.ssh_sidecar.exec_server_port
        main: dict[str, Any] = {
            "name": "main",
            "image": spec.image,
            "essential": True,
            "memory": int(config.memory) - 256,
            "entryPoint": ["sh", "-c"],
            "command": [f'exec python3 -c "$(echo {code} | base64 -d)" {port}'],
            "environment": [
                {"name": name, "value": value} for name, value in sorted(spec.env.items())
            ],
            "dependsOn": [{"containerName": "ssh-tunnel", "condition": "HEALTHY"}],
        }
        life = config.max_task_lifetime_sec or _LIFETIME
        payload: dict[str, Any] = {
            "networkMode": "awsvpc",
            "requiresCompatibilities": ["FARGATE"],
            "cpu": config.cpu,
            "memory": config.memory,
            "containerDefinitions": [main, sidecar(config.ssh_sidecar, life)],
        }
        roles = {"executionRoleArn": config.execution_role_arn, "taskRoleArn": config.task_role_arn}
        payload |= {name: value for name, value in roles.items() if value}
        if config.log_group:
            options = {
                "awslogs-group": config.log_group,
                "awslogs-stream-prefix": config.log_stream_prefix or "nel",
                "awslogs-region": config.region or "",
            }
            main["logConfiguration"] = {"logDriver": "awslogs", "options": options}
        if config.ephemeral_storage_gib:
            payload["ephemeralStorage"] = {"sizeInGiB": config.ephemeral_storage_gib}
        return payload


def aws_client(service: str, region: str | None) -> Any:
    """Create a client of an AWS service.

    Raises:
        MissingExtraError: boto3 is not installed.
    """
    settings = optional("botocore.config", extra="aws", what="boto3").Config
    adaptive = settings(retries={"mode": "adaptive", "max_attempts": 10})
    return optional("boto3", extra="aws").client(service, region_name=region, config=adaptive)


async def _call(function: Callable[..., T], **arguments: Any) -> T:
    """Make an AWS call in a thread; its errors become SandboxErrors."""
    with boundary(Cause.SANDBOX):
        return await asyncio.to_thread(lambda: function(**arguments))
