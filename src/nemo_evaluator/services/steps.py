"""Servers as steps of a SLURM job, started by its script on request: a worker in a container has no srun.

The script says where we are: ``NEL_SERVICE_RELAY`` is that folder, ``NEL_POOL_NODES`` the nodes (one line a pool,
``NAME=GROUP:NODE@ADDRESS,...``), ``NEL_JOB_STEP`` how images are run there. ``NAME.start`` is a command to run;
``NAME.exit`` holds how it ended; ``NAME.stop`` asks for its end.
"""

import asyncio
import itertools
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Self

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name, write_atomic
from nemo_evaluator.core.values import dataclass, field, replace
from nemo_evaluator.services.base import Launch, Site
from nemo_evaluator.services.forms import Step, srun_argv
from nemo_evaluator.services.life import Server
from nemo_evaluator.services.planner import plan_service, replicas_of
from nemo_evaluator.services.process import port_is_busy

RELAY: Final = "NEL_SERVICE_RELAY"
NODES: Final = "NEL_POOL_NODES"
STEP: Final = "NEL_JOB_STEP"
# Names of variables that every service of the job gets.
SHARED: Final = "NEL_CONTAINER_ENV"
_LOOK: Final = 0.2
_PATIENCE: Final = 30.0
# Below the range from which systems take ports for connections that go out.
_PORTS: Final = range(20_000, 32_000)


@dataclass(frozen=True, slots=True)
class Node:
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
            raise UsageError(f"a server wants {count} nodes of a pool that has {len(self.nodes)}", hint=hint)
        slot = next(self.turn) % (len(self.nodes) // count)
        return self.nodes[slot * count : (slot + 1) * count]


class StepServer(Server):
    """A server that the job's script starts and stops for us."""

    def __init__(self, name: str, launch: Launch, log_path: Path, relay: Path, argv: Sequence[str]) -> None:
        super().__init__(name, launch, log_path)
        self._argv, self._base = argv, relay / safe_name(name)

    async def _begin(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._file("exit").unlink(missing_ok=True)
        log, variables = shlex.quote(str(self.log_path)), shlex.quote(str(self._file("env")))
        lines = [f"set -a; . {variables}; set +a", f"rm -f {variables}", f"exec >>{log} 2>&1 </dev/null"]
        shared = {name: os.environ[name] for name in os.environ.get(SHARED, "").split() if name in os.environ}
        env = "".join(f"{name}={shlex.quote(value)}\n" for name, value in (shared | self.launch.env).items())
        write_atomic(self._file("env"), env, mode=0o600)
        write_atomic(self._file("start"), "\n".join([*lines, f"exec {shlex.join(self._argv)}"]) + "\n")

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

    def __init__(self, relay: Path, pools: dict[str, _Pool], step: Step) -> None:
        self._relay, self._pools, self._step = relay, pools, step
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
            known = [Node(*one.split("@", 1)) for one in nodes.split(",")]
            pools[name] = _Pool(int(group) if group else None, known)
        return cls(Path(relay), pools, Step(**orjson.loads(os.environ.get(STEP, "{}"))))

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
        plans = plan_service(name, service, step_site(service, self._step))
        names = [name] if len(plans) == 1 else [f"{name}-{number}" for number in range(len(plans))]
        return [self._server(each, plan, logs) for each, plan in zip(names, plans, strict=True)]

    def _server(self, name: str, launch: Launch, logs: Path) -> StepServer:
        pool, nodes = self._nodes(name, launch)
        if launch.nodes > 1:
            launch = replace(launch, env=launch.env | {"NEL_NODE_HOSTS": " ".join(node.address for node in nodes)})
        launch = replace(launch, host=nodes[0].address)
        return StepServer(
            name, launch, logs / f"server-{safe_name(name)}.log", self._relay, _argv(launch, self._step, pool, nodes)
        )

    def _nodes(self, name: str, launch: Launch) -> tuple[_Pool, list[Node]]:
        wanted = list(dict.fromkeys(pool for pool, _ in launch.pools)) or [next(iter(self._pools))]
        if len(wanted) > 1:
            hint = "give its parts the same node_pool, with enough nodes"
            raise UsageError(f"services.{name}: one server over several node pools is not supported yet", hint=hint)
        pool = self._pools[wanted[0]]
        return pool, pool.take(launch.nodes)

    def _port(self, count: int) -> int:
        """Ports in a row that follow from the job's number, so that jobs that begin at once do not choose the same."""
        addresses = {node.address for pool in self._pools.values() for node in pool.nodes}
        while True:
            port = _PORTS[self._offset % (len(_PORTS) - count)]
            self._offset += max(count, 8)
            if not any(port_is_busy(port + step, one) for one in addresses for step in range(count)):
                return port


def step_site(service: Any, step: Step) -> Site:
    """Where a service runs in a job: in a container when it has an image and the site runs images."""
    return Site("slurm", container=bool(getattr(service, "image", None)) and step.container != "none")


def _argv(launch: Launch, step: Step, pool: _Pool, nodes: Sequence[Node]) -> list[str]:
    container = step.container if launch.image else "none"
    names = ",".join(node.name for node in nodes)
    return srun_argv(launch, replace(step, container=container, het_group=pool.group, nodelist=names))
