"""The servers that nel starts: a group for each service, behind HAProxy if the config asks for it.

In a SLURM job, servers are steps that the job's script starts on request: a worker in a container has no srun. The
script passes the nodes in ``NEL_POOL_NODES`` (one line per pool, ``NAME=GROUP:NODE@ADDRESS,...``), and in
``NEL_JOB_STEP`` how images run there. In the folder ``NEL_SERVICE_RELAY``, the file ``NAME.start`` is a command to run,
``NAME.exit`` holds its exit code, and ``NAME.stop`` requests its end.
"""

from __future__ import annotations

import asyncio
import itertools
import os
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
from nemo_evaluator.services.base import (
    RunningService,
    Site,
    all_or_first_error,
    named_plans,
    replicas_of,
)
from nemo_evaluator.services.haproxy import haproxy_config, haproxy_launch

RELAY: Final = "NEL_SERVICE_RELAY"
NODES: Final = "NEL_POOL_NODES"
STEP: Final = "NEL_JOB_STEP"
# Holds the names of variables that every service of the job gets.
SHARED: Final = "NEL_CONTAINER_ENV"
# Seconds between two checks whether a step has ended.
_POLL: Final = 0.2
# Seconds that SLURM may need to end a step, beyond the grace period of the server.
_STEP_SLACK: Final = 30.0
# Below the range from which systems take ports for outgoing connections.
_PORTS: Final = range(20_000, 32_000)
# Ports between the first ports of two consecutive jobs, and the fewest that one service takes.
_PORTS_PER_JOB: Final = 808
_PORTS_PER_SERVICE: Final = 8


class Node(NamedTuple):
    """A node of the job, and its network address."""

    name: str
    address: str


@dataclass(slots=True)
class _Pool:
    """The nodes of one pool, given to servers in turn."""

    group: int | None
    nodes: list[Node]
    turn: Iterator[int] = field(default_factory=itertools.count)

    def take(self, count: int) -> list[Node]:
        """The nodes of the next server: servers spread over a pool before they share a node of it."""
        if count > len(self.nodes):
            raise UsageError(
                f"a server needs {count} nodes, but its pool has {len(self.nodes)}",
                hint="raise nodes of the pool",
            )
        slot = next(self.turn) % (len(self.nodes) // count)
        return self.nodes[slot * count : (slot + 1) * count]


class StepServer(Server):
    """A server that the job's script starts and stops.

    Args:
        name: The name of the server.
        launch: Its launch plan.
        log_path: Its log.
        relay: The folder through which nel and the script communicate.
        argv: The command of the step.
    """

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
            f"exec {joined(self._argv)}",
        ]
        env = _shared_variables() | self.launch.env
        write_atomic(self._file("env"), assignments(env), mode=0o600)
        write_atomic(self._file("start"), "\n".join(lines) + "\n")

    def _exit_code(self) -> int | None:
        try:
            return int(self._file("exit").read_text())
        except FileNotFoundError:
            return None

    async def _ended(self) -> None:
        while self._exit_code() is None:
            await asyncio.sleep(_POLL)

    async def stop(self) -> None:
        """Request the end of the step; one that does not end in time ends with the job."""
        if not self._file("sh").exists() or self._exit_code() is not None:
            self._file("start").unlink(missing_ok=True)
            return
        self._file("stop").touch()
        try:
            await asyncio.wait_for(self._ended(), self.launch.stop_grace + _STEP_SLACK)
        except TimeoutError:
            return

    def _file(self, suffix: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{suffix}")


def _shared_variables() -> dict[str, str]:
    """The variables that every service of the job gets."""
    shared: dict[str, str] = {}
    for name in os.environ.get(SHARED, "").split():
        if name in os.environ:
            shared[name] = os.environ[name]
    return shared


class JobPlace:
    """The nodes of the current job, given to servers in turn."""

    def __init__(self, relay: Path, pools: dict[str, _Pool], step: JobStep) -> None:
        self._relay = relay
        self._pools = pools
        self._step = step
        self._job_id = os.environ.get("SLURM_JOB_ID", "0")
        self._offset = int(self._job_id) * _PORTS_PER_JOB

    @classmethod
    def here(cls) -> Self | None:
        """The nodes of the current job; None outside a job that nel submitted."""
        relay = os.environ.get(RELAY)
        if relay is None:
            return None
        pools: dict[str, _Pool] = {}
        for line in os.environ.get(NODES, "").splitlines():
            name, _, rest = line.partition("=")
            group, _, nodes = rest.partition(":")
            het_group = int(group) if group else None
            pools[name] = _Pool(het_group, [_node(text) for text in nodes.split(",")])
        step = JobStep(**orjson.loads(os.environ.get(STEP, "{}")))
        return cls(Path(relay), pools, step)

    def placed(self, service: Any) -> Any:
        """A service with ports that are free on these nodes: for its servers, for the meeting of their nodes, and for
        its balancer."""
        # A configured port is kept, unless other shards on the same node need it, too.
        is_configured = "port" in service.model_fields_set and service.port is not None
        if is_configured and "NEL_SHARD_IDX" not in os.environ:
            return service
        count = 2 * replicas_of(service)
        ports = {"port": self._port(count + 1)}
        if "balancer_port" not in service.model_fields_set:
            ports["balancer_port"] = ports["port"] + count
        return service.model_copy(update=ports)

    def servers(self, name: str, service: Any, logs: Path) -> list[Server]:
        """The servers of a placed service, each with its nodes; nothing is started yet.

        Args:
            name: The name of the service in the config.
            service: Its settings, from ``placed``.
            logs: The folder of the logs.
        """
        servers: list[Server] = []
        site = step_site(service, self._step)
        for server_name, launch in named_plans(name, service, site).items():
            # Each job of a run has its own logs.
            log = log_file(logs, f"{self._job_id}-{server_name}")
            servers.append(self._server(server_name, launch, log))
        return servers

    def _server(self, name: str, launch: Launch, log: Path) -> StepServer:
        pool = self._pool(name, launch)
        nodes = pool.take(launch.nodes)
        env = dict(launch.env)
        if launch.nodes > 1:
            env["NEL_NODE_HOSTS"] = " ".join(node.address for node in nodes)
        launch = replace(launch, host=nodes[0].address, env=env)
        nodelist = ",".join(node.name for node in nodes)
        step = replace(self._step, het_group=pool.group, nodelist=nodelist)
        return StepServer(name, launch, log, relay=self._relay, argv=srun_argv(launch, step))

    def _pool(self, name: str, launch: Launch) -> _Pool:
        """The pool that a server asks for, by default the first."""
        pool_names = {pool for pool, _count in launch.pools}
        if len(pool_names) > 1:
            raise UsageError(
                f"services.{name}: one server over several node pools is not supported yet",
                hint="give its parts the same node_pool, with enough nodes",
            )
        if pool_names:
            return self._pools[pool_names.pop()]
        return next(iter(self._pools.values()))

    def _port(self, count: int) -> int:
        """The first of some consecutive free ports. They depend on the job's number, so that jobs that begin at the
        same time choose different ones."""
        addresses: set[str] = set()
        for pool in self._pools.values():
            addresses.update(node.address for node in pool.nodes)
        while True:
            port = _PORTS[self._offset % (len(_PORTS) - count)]
            self._offset += max(count, _PORTS_PER_SERVICE)
            if _all_free(range(port, port + count), addresses):
                return port


def _all_free(ports: range, addresses: set[str]) -> bool:
    """Whether no process listens on any of the ports at any of the addresses."""
    for address in addresses:
        for port in ports:
            if port_is_busy(port, address):
                return False
    return True


def _node(text: str) -> Node:
    """A node as the job script names it, ``NAME@ADDRESS``. Raises UsageError for an invalid one."""
    name, _, address = text.partition("@")
    if not is_host_name(name) or not is_host_name(address):
        raise UsageError(
            f"{text!r} is not a node and its address",
            hint="check the job's nodes with scontrol",
        )
    return Node(name, address)


def step_site(service: Any, step: JobStep) -> Site:
    """Where a service runs in a job: in a container when it has an image and the site runs images."""
    has_image = bool(getattr(service, "image", None))
    return Site("slurm", container=has_image and step.container != "none")


async def planned_servers(
    managed: Mapping[str, Any], output_dir: Path, say: Say
) -> dict[str, ServerGroup]:
    """Plan the servers of every service that nel starts; outside a job, end those that earlier runs left behind.

    Args:
        managed: The settings of the services, by name.
        output_dir: The folder of the run; logs go to ``logs``.
        say: Prints the progress.

    Returns:
        The servers of each service, not yet started.

    Raises:
        NelError: A service cannot run here.
    """
    job = JobPlace.here()
    logs = output_dir / "logs"
    services = dict(managed)
    if job is not None:
        # All services get their ports before the first plan is made.
        for name, service in managed.items():
            services[name] = job.placed(service)
    groups = dict[str, ServerGroup]()
    for name, service in services.items():
        if job is None:
            servers = _local_servers(name, service, logs)
        else:
            servers = job.servers(name, service, logs)
        balancer: Server | None = None
        if len(servers) > 1 and getattr(service, "balancer", "nel") == "haproxy":
            balancer = _haproxy(name, servers, service.balancer_port, logs=logs)
        groups[name] = ServerGroup(servers, balancer)
    if job is None:
        any_images = any(getattr(service, "image", None) for service in managed.values())
        await sweep_leftovers(say, containers=any_images)
    return groups


def _local_servers(name: str, service: Any, logs: Path) -> list[Server]:
    """The servers of a service on this machine."""
    servers: list[Server] = []
    for server_name, launch in named_plans(name, service).items():
        servers.append(ManagedServer(server_name, launch, log_file(logs, server_name)))
    return servers


def _haproxy(name: str, servers: Sequence[Server], port: int, logs: Path) -> Server:
    """The HAProxy in front of the servers of a service."""
    config = logs / f"haproxy-{safe_name(name)}.cfg"
    logs.mkdir(parents=True, exist_ok=True)
    launches = [server.launch for server in servers]
    config.write_text(haproxy_config(launches, port))
    server_name = f"{name}-haproxy"
    launch = haproxy_launch(launches, port, config)
    return ManagedServer(server_name, launch, log_file(logs, server_name))


class ServerGroup:
    """The servers of one service, restarted after crashes while the run lasts, and their balancer.

    Args:
        servers: The servers, at least one.
        balancer: The server in front of them, if the config asks for one.
    """

    def __init__(self, servers: Sequence[Server], balancer: Server | None = None) -> None:
        self._servers = servers
        self._balancer = balancer
        self._keepers: list[asyncio.Task[None]] = []
        self._losses: list[str] = []

    async def start(self, name: str, say: Say) -> RunningService:
        """Start the servers together, then the balancer, and keep them running.

        Args:
            name: The name of the service in the config.
            say: Prints the progress.

        Returns:
            The address of the service.

        Raises:
            TransportError: One of them did not become ready.
        """
        await all_or_first_error([server.start(say) for server in self._servers])
        entrances = self._servers
        if self._balancer is not None:
            await self._balancer.start(say)
            entrances = [self._balancer]
        self._keepers = [asyncio.create_task(self._keep(server, say)) for server in self._all]
        urls = [server.launch.url for server in entrances]
        return RunningService(
            name=name,
            url=urls[0],
            api_key=self._servers[0].launch.api_key,
            replicas=urls if len(urls) > 1 else (),
            lost=self._lost,
        )

    async def stop(self) -> None:
        """Stop all of them."""
        for task in self._keepers:
            task.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(server.stop() for server in self._all))

    @property
    def _all(self) -> list[Server]:
        if self._balancer is None:
            return list(self._servers)
        return [self._balancer, *self._servers]

    async def _keep(self, server: Server, say: Say) -> None:
        try:
            await server.keep(say)
        except TransportError as error:
            say(error.message)
            # Without the balancer no server can be reached.
            lost_servers = len(self._servers) if server is self._balancer else 1
            self._losses += [error.message] * lost_servers

    def _lost(self) -> str | None:
        """Why the service will not answer again: its last server or its balancer is lost. None while it may."""
        if len(self._losses) >= len(self._servers):
            return self._losses[-1]
        return None
