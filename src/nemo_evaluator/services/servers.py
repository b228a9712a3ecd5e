"""The servers that are ours to start: a group for each service, and HAProxy before it where that is asked for.

In a SLURM job they are steps of it, started by its script on request: a worker in a container has no srun. The script
says where we are: ``NEL_POOL_NODES`` are the nodes (one line a pool, ``NAME=GROUP:NODE@ADDRESS,...``), ``NEL_JOB_STEP``
says how images are run there. In the folder ``NEL_SERVICE_RELAY``, ``NAME.start`` is a command to run; ``NAME.exit``
holds how it ended; ``NAME.stop`` asks for its end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import orjson

from nemo_evaluator.core.errors import TransportError, UsageError
from nemo_evaluator.core.files import safe_name, write_atomic
from nemo_evaluator.core.shell import assignments, is_host_name, joined, quoted
from nemo_evaluator.core.values import dataclass, field, replace
from nemo_evaluator.servers.forms import JobStep, srun_argv
from nemo_evaluator.servers.launch import Launch, Say
from nemo_evaluator.servers.life import Server, log_file
from nemo_evaluator.servers.process import ManagedServer, port_is_busy, sweep_leftovers
from nemo_evaluator.services._model_server import filled
from nemo_evaluator.services.base import (
    RunningService,
    Site,
    all_or_first_error,
    named_plans,
    replicas_of,
)

RELAY: Final = "NEL_SERVICE_RELAY"
NODES: Final = "NEL_POOL_NODES"
STEP: Final = "NEL_JOB_STEP"
# Names of variables that every service of the job gets.
SHARED: Final = "NEL_CONTAINER_ENV"
_LOOK: Final = 0.2
_PATIENCE: Final = 30.0
_HEALTH_PATH: Final = re.compile(r"/[A-Za-z0-9_.~!&()*+,;=:@%/?-]*")
# Below the range from which systems take ports for connections that go out.
_PORTS: Final = range(20_000, 32_000)


class Node(NamedTuple):
    """A node of the job, and where it is reached."""

    name: str
    address: str


@dataclass(slots=True)
class _Pool:
    group: int | None
    nodes: list[Node]
    turn: Iterator[int] = field(default_factory=itertools.count)

    def take(self, count: int) -> list[Node]:
        """The next nodes: servers spread over a pool before they share a node of it."""
        if count > len(self.nodes):
            hint = "raise its nodes"
            raise UsageError(
                f"a server wants {count} nodes of a pool that has {len(self.nodes)}", hint=hint
            )
        slot = next(self.turn) % (len(self.nodes) // count)
        return self.nodes[slot * count : (slot + 1) * count]


class StepServer(Server):
    """A server that the job's script starts and stops for us."""

    def __init__(
        self, name: str, launch: Launch, log_path: Path, relay: Path, argv: Sequence[str]
    ) -> None:
        super().__init__(name, launch, log_path)
        self._argv = argv
        self._base = relay / safe_name(name)

    async def _begin(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._file("exit").unlink(missing_ok=True)
        log = quoted(self.log_path)
        variables = quoted(self._file("env"))
        lines = [
            f"set -a; . {variables}; set +a",
            f"rm -f {variables}",
            f"exec >>{log} 2>&1 </dev/null",
        ]
        shared: dict[str, str] = {}
        for name in os.environ.get(SHARED, "").split():
            if name in os.environ:
                shared[name] = os.environ[name]
        write_atomic(self._file("env"), assignments(shared | self.launch.env), mode=0o600)
        write_atomic(self._file("start"), "\n".join([*lines, f"exec {joined(self._argv)}"]) + "\n")

    def _exit_code(self) -> int | None:
        try:
            return int(self._file("exit").read_text())
        except FileNotFoundError:
            return None

    async def _ended(self) -> None:
        while self._exit_code() is None:
            await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        """Ask for its end; what does not end now ends with the job."""
        if not self._file("sh").exists() or self._exit_code() is not None:
            self._file("start").unlink(missing_ok=True)
            return
        self._file("stop").touch()
        try:
            await asyncio.wait_for(self._ended(), self.launch.stop_grace + _PATIENCE)
        except TimeoutError:
            return

    def _file(self, word: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{word}")


class JobPlace:
    """The nodes of the job that we are in, given out to servers in turn."""

    def __init__(self, relay: Path, pools: dict[str, _Pool], step: JobStep) -> None:
        self._relay = relay
        self._pools = pools
        self._step = step
        self._offset = int(os.environ.get("SLURM_JOB_ID", "0")) * 808

    @classmethod
    def here(cls) -> Self | None:
        """Where we are; None outside a job of ours."""
        relay = os.environ.get(RELAY)
        if relay is None:
            return None
        pools: dict[str, _Pool] = {}
        for line in os.environ.get(NODES, "").splitlines():
            name, _, rest = line.partition("=")
            group, _, nodes = rest.partition(":")
            known = [_node(text) for text in nodes.split(",")]
            pools[name] = _Pool(int(group) if group else None, known)
        return cls(Path(relay), pools, JobStep(**orjson.loads(os.environ.get(STEP, "{}"))))

    def placed(self, service: Any) -> Any:
        """A service with ports that are its own here: of its servers, where their nodes meet, and of its balancer."""
        # A port that was asked for is kept, unless other shards on the same node would ask for it, too.
        asked = "port" in service.model_fields_set and service.port is not None
        if asked and "NEL_SHARD_IDX" not in os.environ:
            return service
        count = 2 * replicas_of(service)
        ports = {"port": self._port(count + 1)}
        if "balancer_port" not in service.model_fields_set:
            ports["balancer_port"] = ports["port"] + count
        return service.model_copy(update=ports)

    def servers(self, name: str, service: Any, logs: Path) -> list[Server]:
        """The servers of a service that has been placed, each with its nodes; nothing is started yet."""
        plans = named_plans(name, service, step_site(service, self._step))
        return [self._server(each, launch, log_file(logs, each)) for each, launch in plans.items()]

    def _server(self, name: str, launch: Launch, log: Path) -> StepServer:
        wanted = list(dict.fromkeys(pool for pool, _ in launch.pools)) or [next(iter(self._pools))]
        if len(wanted) > 1:
            hint = "give its parts the same node_pool, with enough nodes"
            raise UsageError(
                f"services.{name}: one server over several node pools is not supported yet",
                hint=hint,
            )
        pool = self._pools[wanted[0]]
        nodes = pool.take(launch.nodes)
        if launch.nodes > 1:
            hosts = {"NEL_NODE_HOSTS": " ".join(node.address for node in nodes)}
        else:
            hosts = {}
        launch = replace(launch, host=nodes[0].address, env=launch.env | hosts)
        step = replace(
            self._step, het_group=pool.group, nodelist=",".join(node.name for node in nodes)
        )
        return StepServer(name, launch, log, relay=self._relay, argv=srun_argv(launch, step))

    def _port(self, count: int) -> int:
        """Ports in a row that follow from the job's number, so that jobs that begin at once do not choose the same."""
        addresses: set[str] = set()
        for pool in self._pools.values():
            for node in pool.nodes:
                addresses.add(node.address)
        while True:
            port = _PORTS[self._offset % (len(_PORTS) - count)]
            self._offset += max(count, 8)
            if not any(
                port_is_busy(port + step, one) for one in addresses for step in range(count)
            ):
                return port


def _node(text: str) -> Node:
    """A node as the job script names it. Raises UsageError for what cannot be one."""
    name, _, address = text.partition("@")
    if not is_host_name(name) or not is_host_name(address):
        raise UsageError(
            f"{text!r} is not a node and its address",
            hint="check what scontrol says of the job's nodes",
        )
    return Node(name, address)


def step_site(service: Any, step: JobStep) -> Site:
    """Where a service runs in a job: in a container when it has an image and the site runs images."""
    return Site(
        "slurm", container=bool(getattr(service, "image", None)) and step.container != "none"
    )


async def planned_servers(
    managed: Mapping[str, Any], output_dir: Path, say: Say
) -> dict[str, ServerGroup]:
    """The servers of every service that is ours to start; what earlier runs left behind on this machine is ended."""
    job = JobPlace.here()
    logs = output_dir / "logs"
    planned = dict[str, ServerGroup]()
    placed = {name: job.placed(one) if job else one for name, one in managed.items()}
    for name, one in placed.items():
        if job is None:
            plans = named_plans(name, one)
            servers: list[Server] = [
                ManagedServer(each, plan, log_file(logs, each)) for each, plan in plans.items()
            ]
        else:
            servers = job.servers(name, one, logs)
        front: Server | None = None
        if len(servers) > 1 and getattr(one, "balancer", "nel") == "haproxy":
            file = logs / f"haproxy-{safe_name(name)}.cfg"
            each = f"{name}-haproxy"
            logs.mkdir(parents=True, exist_ok=True)
            behind = [server.launch for server in servers]
            file.write_text(haproxy_config(behind, one.balancer_port))
            front = ManagedServer(
                each, haproxy_launch(behind, one.balancer_port, file), log_file(logs, each)
            )
        planned[name] = ServerGroup(servers, front)
    if job is None:
        await sweep_leftovers(
            say, containers=any(getattr(one, "image", None) for one in managed.values())
        )
    return planned


class ServerGroup:
    """The servers of one service, kept up while the run lasts, and what stands before them."""

    def __init__(self, servers: Sequence[Server], front: Server | None = None) -> None:
        self._servers = servers
        self._front = front
        self._keepers: list[asyncio.Task[None]] = []
        self._losses: list[str] = []

    async def start(self, name: str, say: Say) -> RunningService:
        await all_or_first_error([server.start(say) for server in self._servers])
        if self._front is not None:
            await self._front.start(say)
        self._keepers = [asyncio.create_task(self._keep(server, say)) for server in self._all]
        urls = [server.launch.url for server in ([self._front] if self._front else self._servers)]
        key = self._servers[0].launch.api_key
        return RunningService(
            name, urls[0], key, replicas=urls if len(urls) > 1 else (), lost=self._lost
        )

    async def stop(self) -> None:
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(server.stop() for server in self._all))

    @property
    def _all(self) -> list[Server]:
        return [*([self._front] if self._front else []), *self._servers]

    async def _keep(self, server: Server, say: Say) -> None:
        try:
            await server.keep(say)
        except TransportError as error:
            say(error.message)
            self._losses += [error.message] * (len(self._servers) if server is self._front else 1)

    def _lost(self) -> str | None:
        """Why nothing will answer any more: the last server is gone, or what stands before them."""
        if len(self._losses) >= len(self._servers):
            return self._losses[-1]
        return None


def haproxy_config(servers: Sequence[Launch], port: int) -> str:
    """The whole file: least connections first, servers that fail their health check are left out. Raises UsageError
    for a path or an address that would be more than one word there."""
    health = servers[0].health_paths[0]
    if _HEALTH_PATH.fullmatch(health) is None:
        hint = "write a path without spaces, quotes, backslashes and #"
        raise UsageError(f"HAProxy cannot ask for the health path {health!r}", hint=hint)
    lines = filled("haproxy.cfg", port=int(port), health=health)
    for number, server in enumerate(servers):
        if not is_host_name(server.host):
            raise UsageError(f"{server.host!r} is not the address of a server")
        lines.append(
            f"    server server-{number} {server.host}:{server.port} check inter 1s fall 2 rise 1"
        )
    return "\n".join(lines) + "\n"


def haproxy_launch(servers: Sequence[Launch], port: int, file: Path) -> Launch:
    """The plan of HAProxy itself; ``file`` holds its config."""
    if shutil.which("haproxy") is None:
        raise UsageError(
            "haproxy is not on PATH",
            hint="install it, or leave out balancer: nel then balances itself",
        )
    argv = ["haproxy", "-db", "-f", str(file)]
    return replace(
        servers[0],
        argv=argv,
        host="127.0.0.1",
        port=port,
        env={},
        image=None,
        mounts=(),
        gpus=0,
        nodes=1,
        pools=(),
    )
