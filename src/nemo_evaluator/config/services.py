"""The kinds of service: models reached or started over HTTP, Gym servers, agent servers."""

from __future__ import annotations

import warnings
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import Above0, EnvMap, Model, Name, Options, Port, Positive, Protocol, SecretText
from nemo_evaluator.config._service_base import HelperService, ManagedService, ModelService, ServiceBase

PROTOCOL_OF_PATH: dict[str, Protocol] = {
    "/chat/completions": "chat_completions",
    "/completions": "completions",
    "/responses": "responses",
}


def _url(value: str) -> str:
    try:
        parts = urlsplit(value)
        named = parts.username is not None or parts.password is not None
        ok = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        ok = named = False
    if named:
        raise PydanticCustomError(
            "url_with_password",
            "a URL must not hold a user name or password: give the key as api_key, or as a header under "
            "proxy.extra_headers, from an environment variable",
        )
    if not ok:
        raise PydanticCustomError("bad_url", "a URL that starts with http:// or https:// is expected")
    return value


Url = Annotated[str, AfterValidator(_url)]


def protocol_of_url(url: str) -> Protocol | None:
    """The protocol that the path of a URL speaks of, if it speaks of one."""
    try:
        path = urlsplit(url).path.rstrip("/")
    except ValueError:
        return None
    return next((protocol for ending, protocol in PROTOCOL_OF_PATH.items() if path.endswith(ending)), None)


class ApiService(ModelService):
    """A model behind a URL that somebody else keeps up."""

    type: Literal["api"]
    url: Url = Field(description="Full URL of the endpoint, such as `https://host/v1/chat/completions`.")
    model: str | None = Field(None, description="Model name in requests; null: the name of the service.")
    api_key: SecretText | None = Field(None, description="Key; write `${VARIABLE}`, never the key itself.")
    health_path: str | None = Field(None, description="Path that answers 200 when the server is up.")

    @model_validator(mode="after")
    def _url_and_protocol(self) -> ApiService:
        spoken = protocol_of_url(self.url)
        if spoken is not None and spoken != self.protocol:
            warnings.warn(
                f"the URL path speaks of {spoken}, the protocol is {self.protocol}", UserWarning, stacklevel=2
            )
        return self


class VllmService(ManagedService):
    """A vLLM server."""

    type: Literal["vllm"]


class SglangService(ManagedService):
    """An SGLang server."""

    type: Literal["sglang"]


class NimService(ManagedService):
    """A NIM container."""

    type: Literal["nim"]


class TrtLlmService(ManagedService):
    """A TensorRT-LLM server."""

    type: Literal["trt_llm"]


class DockerModelService(ManagedService):
    """Any model server in a container."""

    type: Literal["docker_model"]


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

    type: Literal["dynamo"]
    engine: Literal["sglang"] = Field("sglang", description="Engine of the workers.")
    prefill: DynamoWorkers | None = Field(None, description="Prefill workers; needs `decode` too.")
    decode: DynamoWorkers | None = Field(None, description="Decode workers; needs `prefill` too.")

    @model_validator(mode="after")
    def _both_or_none(self) -> DynamoService:
        if (self.prefill is None) != (self.decode is None):
            raise PydanticCustomError("half_split", "prefill and decode go together: give both or none")
        return self


class LlamaCppService(ModelService):
    """A small model on this machine: a GGUF file, or a packaged model by name."""

    type: Literal["llama_cpp"]
    model: Name = Field(description="A .gguf file, or a packaged model such as `smollm2-135m`.")
    protocol: Protocol = Field("chat_completions", description="How requests are written.")
    served_model_name: str | None = Field(None, description="Name in requests; null: the name of the service.")
    context_size: Positive = Field(8192, description="Context of one slot, in tokens.")
    slots: Positive = Field(4, description="Requests served at once.")
    threads: Positive | None = Field(None, description="CPU threads; null: as many as there are cores.")
    port: Port | None = Field(None, description="Port of the server; null: any free one.")
    startup_timeout: Above0 = Field(120.0, description="Seconds until the server must be up.")
    backend: Literal["auto", "llama-server", "xllamacpp"] = Field(
        "auto", description="What serves the model; `auto` takes the llama-server command where it is found."
    )
    extra_args: list[str] = Field(default_factory=list, description="Further arguments of llama-server.")
    extra_env: EnvMap = Field(default_factory=dict, description="Environment of the server.")


class GymService(HelperService):
    """A Gym server; started by us unless it has a `url`."""

    type: Literal["gym"]
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    benchmark: str | None = Field(None, description="Benchmark that the started server offers.")
    server_cmd: str | None = Field(None, description="Command that starts the server.")


class NatService(HelperService):
    """A NeMo Agent Toolkit server."""

    type: Literal["nat", "nat_agent"]
    url: Url | None = Field(None, description="URL of a running server; null: we start one.")
    nat_config_file: str | None = Field(None, description="Workflow file of the agent.")


class CustomService(ServiceBase):
    """A service of your own."""

    type: Literal["custom"]
    class_path: Name = Field(description="The class, as `package.module:Name`.")
    config: Options = Field(default_factory=dict, description="Its settings.")


ServiceConfig: TypeAlias = Annotated[
    ApiService
    | VllmService
    | SglangService
    | NimService
    | TrtLlmService
    | DockerModelService
    | DynamoService
    | LlamaCppService
    | GymService
    | NatService
    | CustomService,
    Field(discriminator="type"),
]
