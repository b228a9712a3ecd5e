"""``type: vllm``: a vLLM server; over several nodes through Ray."""

from typing import Final, Literal

from nemo_evaluator.config.managed_service import EngineService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.shell import quoted
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import NODE_LINES, ModelServer, Planned, filled

_SIZES: Final = "--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size"


class VllmService(EngineService):
    """A vLLM server."""

    type: Literal["vllm"] = "vllm"


class Vllm(ModelServer[VllmService]):
    """Plans ``vllm serve``; on this machine as a module of the Python that has it installed."""

    def launch(self, server: Planned[VllmService]) -> Launch:
        """``vllm serve`` with the flags of the config; over several nodes after lines that start Ray."""
        service = server.service
        lines = list[str]()
        argv = ["serve", server.model, *server.listening]
        argv += server.engine_flags(*_SIZES, "--reasoning-parser", "--tool-call-parser")
        if service.tool_parser:
            argv += ["--enable-auto-tool-choice"]
        if service.num_nodes > 1:
            # The first node is the head, which serves; the others join it and stay until it ends.
            argv += ["--distributed-executor-backend", "ray"]
            ray = quoted(service.ray_binary)
            lines += NODE_LINES
            lines += filled("ray.sh", ray=ray, port=server.meeting_port, nodes=service.num_nodes)
        argv += service.extra_args
        if server.site.here:
            argv = server.keyed_module("vllm.entrypoints.cli.main", argv)
        else:
            argv = ["vllm", *argv]
        return server.launch(argv, image="vllm/vllm-openai:latest", key="VLLM_API_KEY", lines=lines)


KIND: Final = Kind(VllmService, Vllm)
