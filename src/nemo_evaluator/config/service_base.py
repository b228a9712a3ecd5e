"""Base classes and common settings of the kinds of service."""

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import (
    Above0,
    Argument,
    Count,
    EnvMap,
    Later,
    Line,
    LineName,
    Model,
    Mount,
    Port,
    Positive,
    Protocol,
    Regex,
    Role,
    ShellText,
    UrlPath,
    no_items,
)
from nemo_evaluator.config.groups import SERVICES
from nemo_evaluator.config.kinds import KindOf
from nemo_evaluator.config.traffic import (
    BatchConfig,
    GenerationConfig,
    InterceptorConfig,
    PriceConfig,
    ProxyConfig,
    RetryConfig,
    TimeoutsConfig,
)

Balancer: TypeAlias = Literal["nel", "haproxy"]


class ServiceBase(Model):
    """A service reached over HTTP."""

    type: str
    # How other parts may use the service; `any` if only the user knows.
    role: ClassVar[Role] = "any"

    depends_on: list[str] = Field(
        default_factory=no_items,
        description="Services that must be running before this one starts.",
    )

    def base_url(self) -> str | None:
        """The base URL of the service, if the config determines it."""
        port = getattr(self, "port", None)
        return getattr(self, "url", None) or (
            f"http://localhost:{port}/v1" if port is not None else None
        )

    def model_id(self, name: str) -> str:
        """The name of the model in requests, for a service called ``name``."""
        return name


class ModelService(ServiceBase):
    """A service that serves a model."""

    role: ClassVar[Role] = "model"

    protocol: Protocol = Field(
        "chat_completions",
        description="Protocol of requests; an `api` service takes it from the path of its URL.",
    )
    generation: GenerationConfig = Field(
        default_factory=GenerationConfig,
        description="Generation settings; a solver's settings take precedence.",
    )
    max_input_tokens: Later[Positive] = Field(None, description="Maximum number of prompt tokens.")
    max_output_tokens: Later[Positive] = Field(
        None, description="Maximum number of completion tokens."
    )
    tokenizer: Later[str] = Field(
        None, description="Tokenizer for counting tokens; null: the model's own."
    )
    reasoning_pattern: Regex | None = Field(
        None,
        description="Regular expression that matches reasoning text in the content; nel stores the matches separately.",
    )
    timeouts: TimeoutsConfig = Field(
        default_factory=TimeoutsConfig, description="Timeouts of requests."
    )
    retry: RetryConfig = Field(
        default_factory=RetryConfig, description="Retries of failed requests."
    )
    price: PriceConfig | None = Field(
        None, description="Price of the model; null: the packaged price, if known."
    )
    max_concurrent: Positive | None = Field(
        None,
        description="Maximum concurrent requests to this service; null: `max_concurrent` of the benchmark.",
    )
    batch: BatchConfig | None = Field(None, description="Requests through the vendor's batch API.")
    proxy: ProxyConfig | None = Field(
        None, description="Interceptors and other processing of requests and responses."
    )
    interceptors: list[InterceptorConfig] | None = Field(
        None, description="Short for `proxy.interceptors`."
    )
    proxy_verbose: bool | None = Field(None, description="Short for `proxy.verbose`.")

    @model_validator(mode="after")
    def _fold(self) -> Self:
        """Put the two spellings of one setting in one place, so that readers need to know only that place."""
        if self.interceptors is not None or self.proxy_verbose is not None:
            proxy = self.proxy = self.proxy or ProxyConfig()
            if self.interceptors is not None:
                if proxy.interceptors:
                    raise _twice("interceptors", "proxy.interceptors")
                proxy.interceptors = self.interceptors
            if self.proxy_verbose is not None:
                proxy.verbose = proxy.verbose or self.proxy_verbose
            self.interceptors = self.proxy_verbose = None
        for short, target in _PROXY_LIMITS.items():
            value = getattr(self.proxy, short, None)
            if value is not None:
                block, _, name = target.rpartition(".")
                owner = getattr(self, block).model_copy() if block else self
                _set_once(owner, name, value, one=target, other=f"proxy.{short}")
                if block:
                    setattr(self, block, owner)
        if self.batch is not None and getattr(self, "url", None) is None:
            message = "a server that nel starts has no batch API; batch is for services of type api"
            raise PydanticCustomError("no_batch_api", message)
        return self


# Limits that may be set in a proxy block, and the settings that store them.
_PROXY_LIMITS = {
    "request_timeout": "timeouts.total",
    "max_retries": "retry.max_retries",
    "retry_on_status": "retry.on_status",
    "max_concurrent_upstream": "max_concurrent",
}


def _set_once(owner: Model, name: str, given: Any, one: str, other: str) -> None:
    """Store a value that was given under a second name.

    Raises:
        PydanticCustomError: If both names are set to different values.
    """
    if name in owner.model_fields_set and getattr(owner, name) not in (None, given):
        raise _twice(one, other)
    setattr(owner, name, given)


def _twice(one: str, other: str) -> PydanticCustomError:
    text = "{one} and {other} are the same setting and disagree; keep one"
    return PydanticCustomError("given_twice", text, {"one": one, "other": other})


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
            configured = getattr(self, short)
            if configured is not None:
                _set_once(self, long, configured, one=short, other=long)
                setattr(self, short, None)
        if isinstance(self.gpus, list) and len(self.gpus) % self.replicas:
            raise PydanticCustomError(
                "gpu_share", "the GPUs cannot be shared evenly among the replicas"
            )
        if isinstance(self.gpus, list):
            configured = len(self.gpus) // self.replicas
        else:
            configured = self.gpus
        needed_gpus = -(
            -(self.tensor_parallel_size or 1) * (self.pipeline_parallel_size or 1) // self.num_nodes
        )
        if configured and configured < needed_gpus:
            text = "a server needs {wanted} GPUs on a node (tensor x pipeline parallel size), and gpus gives it {given}"
            raise PydanticCustomError(
                "too_few_gpus", text, {"given": configured, "wanted": needed_gpus}
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


ServiceConfig: TypeAlias = Annotated[ServiceBase, KindOf(SERVICES)]
