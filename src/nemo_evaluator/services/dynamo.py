"""``type: dynamo``: a Dynamo deployment."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import EnvMap, Model, Positive
from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import NOT_YET, Kind


class DynamoWorkers(Model):
    """The prefill or the decode workers of a disaggregated Dynamo deployment."""

    tensor_parallel_size: Positive | None = Field(None, description="GPUs over which a layer is split.")
    pipeline_parallel_size: Positive | None = Field(None, description="Stages into which the layers are split.")
    data_parallel_size: Positive | None = Field(None, description="Copies of the model.")
    num_nodes: Positive = Field(1, description="Nodes of one worker.")
    num_workers: Positive = Field(1, description="Number of workers.")
    node_pool: str | None = Field(None, description="Node pool of the cluster.")
    extra_args: list[str] = Field(default_factory=list, description="Further arguments of the worker.")
    extra_env: EnvMap = Field(default_factory=dict, description="Environment of the worker.")


class DynamoService(ManagedService):
    """A Dynamo deployment, aggregated or split into prefill and decode workers."""

    type: Literal["dynamo"] = "dynamo"
    engine: Literal["sglang"] = Field("sglang", description="Engine of the workers.")
    prefill: DynamoWorkers | None = Field(None, description="Prefill workers; needs `decode` too.")
    decode: DynamoWorkers | None = Field(None, description="Decode workers; needs `prefill` too.")

    @model_validator(mode="after")
    def _both_or_none(self) -> DynamoService:
        if (self.prefill is None) != (self.decode is None):
            raise PydanticCustomError("half_split", "prefill and decode go together: give both or none")
        return self


KIND: Final = Kind(DynamoService, missing=NOT_YET)
