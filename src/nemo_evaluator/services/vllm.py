"""``type: vllm``: a vLLM server; over several nodes through Ray."""

import shlex
from typing import Final, Literal

from nemo_evaluator.config.service_base import EngineService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.services._model_server import (
    NODE_LINES,
    ModelServer,
    filled,
    flags,
    keyed_module,
    listening,
    meeting_port,
    model_launch,
    model_path,
)
from nemo_evaluator.services.base import Launch, Site


class VllmService(EngineService):
    """A vLLM server."""

    type: Literal["vllm"] = "vllm"


class Vllm(ModelServer):
    """Plans a vLLM server."""

    def plan(self, name: str, service: VllmService, site: Site) -> Launch:
        """``vllm serve``; here as a module, by the Python that has it."""
        arguments = listening(service, name, site) + flags(
            {
                "--tensor-parallel-size": service.tensor_parallel_size,
                "--pipeline-parallel-size": service.pipeline_parallel_size,
                "--data-parallel-size": service.data_parallel_size,
                "--reasoning-parser": service.reasoning_parser,
                "--tool-call-parser": service.tool_parser,
            }
        )
        arguments += ["--enable-auto-tool-choice"] if service.tool_parser else []
        lines: list[str] = []
        if service.num_nodes > 1:
            arguments += ["--distributed-executor-backend", "ray"]
            lines = _ray_lines(service, site)
        arguments += service.extra_args
        argv = ["serve", model_path(service, site), *arguments]
        argv = keyed_module(site, "vllm.entrypoints.cli.main", argv) if site.here else ["vllm", *argv]
        return model_launch(name, service, site, argv, image="vllm/vllm-openai:latest", key="VLLM_API_KEY", lines=lines)


def _ray_lines(service: VllmService, site: Site) -> list[str]:
    """The first node is the head and goes on to serve; the others join it and stay until it ends."""
    ray = shlex.quote(service.ray_binary)
    return [*NODE_LINES, *filled("ray.sh", ray=ray, port=meeting_port(service, site), nodes=service.num_nodes)]


KIND: Final = Kind(VllmService, Vllm)
