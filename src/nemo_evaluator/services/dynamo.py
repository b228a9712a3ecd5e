"""``type: dynamo``: a Dynamo deployment, aggregated or split into prefill and decode workers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import EnvMap, Line, Model, Positive, ShellText, no_items
from nemo_evaluator.config.service_base import EngineService
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

_NATS = 4222
_ETCD = 2379
_RENDEZVOUS = 29500
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
    """One worker: its role (empty: both), and the ranks of its first and last node."""

    role: str
    number: int
    first: int
    settings: DynamoService | DynamoWorkers


class Dynamo(ModelServer[DynamoService]):
    """Plans one command for every node of a deployment, which does there what is that node's part: NATS, etcd and the
    frontend beside the first worker, the others where they belong."""

    def launch(self, server: Planned[DynamoService]) -> Launch:
        service = server.service
        workers = list(_workers(server.service))
        spread = server.site.kind == "slurm"
        if spread:
            nodes = workers[-1].first + workers[-1].settings.num_nodes
        else:
            nodes = 1
        for worker in workers:
            server.refuse_nodes(worker.settings.num_nodes)
        if server.site.here:
            python_with("dynamo.frontend")
        if spread:
            lines = list(NODE_LINES)
        else:
            lines = ["rank=0", "head=127.0.0.1", "hosts=(127.0.0.1)"]
        lines += filled("dynamo.sh", port=server.port, nats=_NATS, etcd=_ETCD)
        lines += [_started(server, worker, spread) for worker in workers]
        # When one part ends, the deployment has ended: whoever watches takes the rest down.
        argv = in_shell(server.setup, [*lines, "wait -n"])
        launch = server.launch(argv, image=_IMAGE, lines=None, nodes=nodes)
        pools: list[tuple[str | None, int]] = []
        for worker in workers:
            pools.append(
                (worker.settings.node_pool or service.node_pool, worker.settings.num_nodes)
            )
        own = [(one.role, one.settings.extra_env) for one in workers if one.role]
        env: dict[str, str] = {}
        for role, given in own:
            for key, value in given.items():
                env[f"NEL_{role}_{key}"] = value
        return replace(
            launch, env=launch.env | env, pools=[(pool, count) for pool, count in pools if pool]
        )

    def identity(self, service: DynamoService) -> JsonDict:
        """The model and how it is served."""
        roles = {"prefill": service.prefill, "decode": service.decode}
        told = {role: one.extra_args for role, one in roles.items() if one is not None}
        return super().identity(service) | told


def _workers(service: DynamoService) -> Iterator[_DynamoWorker]:
    first = 0
    if service.prefill is None or service.decode is None:
        yield _DynamoWorker("", 0, 0, settings=service)
        return
    for role, settings in (("prefill", service.prefill), ("decode", service.decode)):
        for number in range(settings.num_workers):
            yield _DynamoWorker(role, number, first, settings=settings)
            first += settings.num_nodes


def _started(server: Planned[DynamoService], worker: _DynamoWorker, spread: bool) -> str:
    service = server.service
    settings = worker.settings
    base = server.port
    # Workers of one machine share its ports and its GPUs.
    shift = 0 if spread else 10 * worker.first
    argv = ["python3", "-m", "dynamo.sglang", "--model-path", server.model]
    argv += ["--served-model-name", service.model_id(server.name), "--host", "0.0.0.0"]  # noqa: S104 - inside a deployment
    values: dict[str, object] = {
        "--port": base + 1 + shift,
        "--tp-size": settings.tensor_parallel_size,
        "--pp-size": settings.pipeline_parallel_size,
        "--dp-size": settings.data_parallel_size,
        "--dyn-reasoning-parser": service.reasoning_parser,
        "--dyn-tool-call-parser": service.tool_parser,
        "--disaggregation-mode": worker.role or None,
        "--disaggregation-bootstrap-port": base + 2 + shift if worker.role == "prefill" else None,
    }
    further = [*service.extra_args, *(settings.extra_args if worker.role else [])]
    command = joined([*argv, *flags(values), *further])
    # Values of variables may be secret: they are in the environment, under the name of the role.
    for key in reversed(settings.extra_env if worker.role else {}):
        command = f'{key}="$NEL_{worker.role}_{key}" {command}'
    if not spread and worker.role:
        each = (settings.tensor_parallel_size or 1) * (settings.pipeline_parallel_size or 1)
        mine = range(worker.first * each, (worker.first + 1) * each)
        command = f"CUDA_VISIBLE_DEVICES={','.join(map(str, mine))} {command}"
    if settings.num_nodes > 1:
        nodes = f'--nnodes {settings.num_nodes} --node-rank "$((rank - {worker.first}))"'
        command += f' {nodes} --dist-init-addr "${{hosts[{worker.first}]}}:{_RENDEZVOUS}"'
    if not spread:
        return f"{command} &"
    last = worker.first + settings.num_nodes - 1
    return f'if [ "$rank" -ge {worker.first} ] && [ "$rank" -le {last} ]; then {command} & fi'


KIND: Final = Kind(DynamoService, Dynamo)
