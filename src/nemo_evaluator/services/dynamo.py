"""``type: dynamo``: a Dynamo deployment, aggregated or split into prefill and decode workers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import EnvMap, Line, Model, Positive, ShellText, no_items
from nemo_evaluator.config.managed_service import EngineService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.shell import joined
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import (
    NODE_LINES,
    ModelServer,
    Planned,
    filled,
    flags,
    in_shell,
    python_with,
)

_NATS: Final = 4222
_ETCD: Final = 2379
_RENDEZVOUS: Final = 29500
# Ports that one worker takes of those of its machine.
_PORTS_PER_WORKER: Final = 10
_IMAGE: Final = "nvcr.io/nvidia/ai-dynamo/sglang-runtime:1.1.1-cuda13"


class DynamoWorkers(Model):
    """The prefill or the decode workers of a disaggregated Dynamo deployment."""

    tensor_parallel_size: Positive | None = Field(
        None, description="GPUs over which a layer is split."
    )
    pipeline_parallel_size: Positive | None = Field(
        None, description="Stages into which the layers are split."
    )
    data_parallel_size: Positive | None = Field(None, description="Copies of the model.")
    num_nodes: Positive = Field(1, description="Nodes of one worker.")
    num_workers: Positive = Field(1, description="Number of workers.")
    node_pool: Line | None = Field(None, description="Node pool of the cluster.")
    extra_args: list[ShellText] = Field(
        default_factory=no_items, description="Further arguments of the worker."
    )
    extra_env: EnvMap = Field(default_factory=dict, description="Environment of the worker.")


class DynamoService(EngineService):
    """A Dynamo deployment, aggregated or split into prefill and decode workers."""

    type: Literal["dynamo"] = "dynamo"
    engine: Literal["sglang"] = Field("sglang", description="Engine of the workers.")
    prefill: DynamoWorkers | None = Field(None, description="Prefill workers; needs `decode` too.")
    decode: DynamoWorkers | None = Field(None, description="Decode workers; needs `prefill` too.")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.prefill is None) != (self.decode is None):
            raise PydanticCustomError(
                "half_split", "prefill and decode go together: give both or none"
            )
        return self


@dataclass(frozen=True, slots=True)
class _DynamoWorker:
    """One worker of a deployment."""

    #: ``prefill``, ``decode``, or empty for both.
    role: str
    #: The rank of its first node; on one machine, its number among the workers.
    first: int
    settings: DynamoService | DynamoWorkers

    @property
    def last(self) -> int:
        """The rank of its last node."""
        return self.first + self.settings.num_nodes - 1

    @property
    def gpus(self) -> int:
        """The number of its GPUs."""
        tensor = self.settings.tensor_parallel_size or 1
        pipeline = self.settings.pipeline_parallel_size or 1
        return tensor * pipeline


class Dynamo(ModelServer[DynamoService]):
    """Plans one command for all nodes of a deployment. On each node it starts that node's part: NATS, etcd and the
    frontend next to the first worker, and the workers on the nodes of their own."""

    def launch(self, server: Planned[DynamoService]) -> Launch:
        """One command for all nodes of a deployment."""
        workers = _workers(server.service)
        spread = server.site.kind == "slurm"
        for worker in workers:
            server.refuse_nodes(worker.settings.num_nodes)
        if server.site.here:
            python_with("dynamo.frontend")
        if spread:
            lines = list(NODE_LINES)
        else:
            lines = ["rank=0", "head=127.0.0.1", "hosts=(127.0.0.1)"]
        lines += filled("dynamo.sh", port=server.port, nats=_NATS, etcd=_ETCD)
        for worker in workers:
            lines.append(_start_line(server, worker, spread=spread))
        # The deployment ends when one part ends; the guard then ends the other parts.
        argv = in_shell(server.setup, [*lines, "wait -n"])
        nodes = workers[-1].last + 1 if spread else 1
        launch = server.launch(argv, image=_IMAGE, lines=None, nodes=nodes)
        return replace(
            launch,
            env={**launch.env, **_role_variables(workers)},
            pools=_node_pools(workers, server.service.node_pool),
        )

    def identity(self, service: DynamoService) -> JsonDict:
        """The model, and the arguments of the workers."""
        identity = super().identity(service)
        for role, settings in (("prefill", service.prefill), ("decode", service.decode)):
            if settings is not None:
                identity[role] = settings.extra_args
        return identity


def _workers(service: DynamoService) -> list[_DynamoWorker]:
    """The workers of a deployment, in the order of their nodes."""
    if service.prefill is None or service.decode is None:
        return [_DynamoWorker("", 0, service)]
    workers: list[_DynamoWorker] = []
    first = 0
    for role, settings in (("prefill", service.prefill), ("decode", service.decode)):
        for _ in range(settings.num_workers):
            workers.append(_DynamoWorker(role, first, settings))
            first += settings.num_nodes
    return workers


def _role_variables(workers: Sequence[_DynamoWorker]) -> dict[str, str]:
    """The variables of each role, under a name with the role: their values may be secret, so no command holds them."""
    variables: dict[str, str] = {}
    for worker in workers:
        if worker.role:
            for name, value in worker.settings.extra_env.items():
                variables[f"NEL_{worker.role}_{name}"] = value
    return variables


def _node_pools(workers: Sequence[_DynamoWorker], default: str | None) -> list[tuple[str, int]]:
    """The node pool of every worker that has one, with the number of its nodes."""
    pools: list[tuple[str, int]] = []
    for worker in workers:
        pool = worker.settings.node_pool or default
        if pool:
            pools.append((pool, worker.settings.num_nodes))
    return pools


def _start_line(server: Planned[DynamoService], worker: _DynamoWorker, *, spread: bool) -> str:
    """The line of shell that starts a worker in the background, on its own nodes.

    Args:
        server: The deployment.
        worker: The worker.
        spread: Whether workers run on nodes of a cluster; otherwise they share one machine.
    """
    settings = worker.settings
    command = joined(_worker_argv(server, worker, spread=spread))
    if worker.role:
        for name in reversed(settings.extra_env):
            command = f'{name}="$NEL_{worker.role}_{name}" {command}'
    if worker.role and not spread:
        own_gpus = range(worker.first * worker.gpus, (worker.first + 1) * worker.gpus)
        command = f"CUDA_VISIBLE_DEVICES={','.join(map(str, own_gpus))} {command}"
    if settings.num_nodes > 1:
        nodes = f'--nnodes {settings.num_nodes} --node-rank "$((rank - {worker.first}))"'
        command += f' {nodes} --dist-init-addr "${{hosts[{worker.first}]}}:{_RENDEZVOUS}"'
    if not spread:
        return f"{command} &"
    is_own_node = f'[ "$rank" -ge {worker.first} ] && [ "$rank" -le {worker.last} ]'
    return f"if {is_own_node}; then {command} & fi"


def _worker_argv(
    server: Planned[DynamoService], worker: _DynamoWorker, *, spread: bool
) -> list[str]:
    """The command of a worker, without the flags for its nodes."""
    service = server.service
    settings = worker.settings
    # Workers of one machine share its ports.
    base_port = server.port if spread else server.port + _PORTS_PER_WORKER * worker.first
    argv = ["python3", "-m", "dynamo.sglang", "--model-path", server.model]
    argv += ["--served-model-name", service.model_id(server.name), "--host", "0.0.0.0"]  # noqa: S104 - inside a deployment
    values: dict[str, object] = {
        "--port": base_port + 1,
        "--tp-size": settings.tensor_parallel_size,
        "--pp-size": settings.pipeline_parallel_size,
        "--dp-size": settings.data_parallel_size,
        "--dyn-reasoning-parser": service.reasoning_parser,
        "--dyn-tool-call-parser": service.tool_parser,
        "--disaggregation-mode": worker.role or None,
        "--disaggregation-bootstrap-port": base_port + 2 if worker.role == "prefill" else None,
    }
    argv += flags(values)
    argv += service.extra_args
    if worker.role:
        argv += settings.extra_args
    return argv


KIND: Final = Kind(DynamoService, Dynamo)
