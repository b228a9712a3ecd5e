"""``type: sglang``: an SGLang server."""

from typing import Final, Literal

from nemo_evaluator.config.managed_service import EngineService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.shell import joined
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import (
    KEY_VARIABLE,
    NODE_LINES,
    ModelServer,
    Planned,
    in_shell,
)

_FLAGS: Final = "--tp-size", "--pp-size", "--dp-size", "--reasoning-parser", "--tool-call-parser"


class SglangService(EngineService):
    """An SGLang server."""

    type: Literal["sglang"] = "sglang"


class Sglang(ModelServer[SglangService]):
    """Plans the launch module of SGLang."""

    def launch(self, server: Planned[SglangService]) -> Launch:
        """``sglang.launch_server`` with the flags of the config."""
        arguments = ["--model-path", server.model, *server.listening, *server.engine_flags(*_FLAGS)]
        argv = server.keyed_module("sglang.launch_server", [*arguments, *server.service.extra_args])
        nodes = server.service.num_nodes
        if nodes > 1:
            meeting = f'--node-rank "$rank" --dist-init-addr "$head:{server.meeting_port}"'
            argv = in_shell(NODE_LINES, [f"exec {joined(argv)} --nnodes {nodes} {meeting}"])
        return server.launch(argv, image="lmsysorg/sglang:latest", key=KEY_VARIABLE)


KIND: Final = Kind(SglangService, Sglang)
