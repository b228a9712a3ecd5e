"""Schemas of the services that nel starts, in a module of their own: a config of remote APIs loads without them."""

import math
from typing import Self

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import (
    Above0,
    Argument,
    Count,
    EnvMap,
    Line,
    LineName,
    Mount,
    Port,
    Positive,
    ShellText,
    UrlPath,
    no_items,
)
from nemo_evaluator.config.service_base import Balancer, ModelService, ServiceBase, set_once


class ManagedService(ModelService):
    """A model server that nel starts, checks and stops."""

    model: LineName = Field(description="Model to serve: a hub name or a folder.")
    served_model_name: Line | None = Field(
        None, description="Name in requests; null: the name of the service."
    )
    port: Port = Field(8000, description="Port of the server.")
    tensor_parallel_size: Positive | None = Field(
        None, description="Tensor parallelism: GPUs over which each layer is split."
    )
    pipeline_parallel_size: Positive | None = Field(
        None, description="Pipeline parallelism: stages into which the layers are split."
    )
    data_parallel_size: Positive | None = Field(
        None, description="Data parallelism: copies of the model."
    )
    num_nodes: Positive = Field(1, description="Nodes of one server.")
    gpus: list[Count] | Count | None = Field(
        None, description="GPU numbers, or the number of GPUs per server; null: all GPUs; 0: none."
    )
    replicas: Positive = Field(
        1, description="Number of servers of this service, on consecutive ports."
    )
    balancer: Balancer = Field("nel", description="Load balancer of the replicas.")
    balancer_port: Port = Field(5009, description="Port of `balancer: haproxy`.")
    num_instances: Positive | None = Field(None, description="The same as `replicas`.")
    num_nodes_per_instance: Positive | None = Field(None, description="The same as `num_nodes`.")
    restarts: Count = Field(1, description="How often nel restarts a crashed server.")
    stop_grace: Above0 = Field(
        15.0, description="Seconds between asking the server to stop and killing it."
    )
    image: Argument | None = Field(
        None, description="Container image of the server; null: run it as a process."
    )
    health_path: UrlPath = Field(
        "/health", description="Path that returns 200 when the server is ready."
    )
    startup_timeout: Above0 = Field(
        600.0, description="Seconds within which the server must be ready."
    )
    extra_env: EnvMap = Field(default_factory=dict, description="Environment of the server.")
    extra_args: list[ShellText] = Field(
        default_factory=no_items, description="Additional command line arguments of the server."
    )
    setup_commands: list[ShellText] = Field(
        default_factory=no_items, description="Shell commands to run before the server."
    )
    container_mounts: list[Mount] = Field(
        default_factory=no_items, description="Mounts, `host:container[:ro]`."
    )
    pre_cmd: ShellText | None = Field(
        None, description="Shell text put before the server's command."
    )
    ray_binary: Argument = Field(
        "ray", description="The `ray` command for servers over several nodes."
    )
    node_pool: Line | None = Field(None, description="Node pool of the cluster.")

    @model_validator(mode="after")
    def _instances(self) -> Self:
        for short, long in (("num_instances", "replicas"), ("num_nodes_per_instance", "num_nodes")):
            short_value = getattr(self, short)
            if short_value is not None:
                set_once(self, long, short_value, one=short, other=long)
                setattr(self, short, None)
        gpus_per_server: int | None
        if isinstance(self.gpus, list):
            if len(self.gpus) % self.replicas:
                raise PydanticCustomError(
                    "gpu_share", "the GPUs cannot be shared evenly among the replicas"
                )
            gpus_per_server = len(self.gpus) // self.replicas
        else:
            gpus_per_server = self.gpus
        server_size = (self.tensor_parallel_size or 1) * (self.pipeline_parallel_size or 1)
        needed_gpus = math.ceil(server_size / self.num_nodes)
        if gpus_per_server and gpus_per_server < needed_gpus:
            text = "a server needs {wanted} GPUs on a node (tensor x pipeline parallel size), and gpus gives it {given}"
            raise PydanticCustomError(
                "too_few_gpus", text, {"given": gpus_per_server, "wanted": needed_gpus}
            )
        return self

    def model_id(self, name: str) -> str:
        """The model name that the server serves."""
        return self.served_model_name or name


class EngineService(ManagedService):
    """A model server whose engine takes apart reasoning and tool calls."""

    reasoning_parser: Line | None = Field(
        None, description="The engine's parser of reasoning, such as `qwen3`."
    )
    tool_parser: Line | None = Field(
        None, description="The engine's parser of tool calls, such as `hermes`."
    )


class HelperService(ServiceBase):
    """A service that is not a model: a Gym or an agent server."""

    port: Port = Field(8000, description="Port of the server.")
    image: Argument | None = Field(None, description="Container image of the server.")
    startup_timeout: Above0 = Field(
        120.0, description="Seconds within which the server must be ready."
    )
    restarts: Count = Field(1, description="How often nel restarts a crashed server.")
    stop_grace: Above0 = Field(
        10.0, description="Seconds between asking the server to stop and killing it."
    )
    node_pool: Line | None = Field(None, description="Node pool of the cluster.")

    def base_url(self) -> str | None:
        """The server itself: these speak no versioned API."""
        return getattr(self, "url", None) or f"http://localhost:{self.port}"
