"""``type: sglang``: an SGLang server."""

import shlex
from typing import Final, Literal

from nemo_evaluator.config.service_base import EngineService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.services._model_server import (
    KEY_VARIABLE,
    NODE_LINES,
    ModelServer,
    flags,
    in_shell,
    keyed_module,
    listening,
    meeting_port,
    model_launch,
    model_path,
)
from nemo_evaluator.services.base import Launch, Site


class SglangService(EngineService):
    """An SGLang server."""

    type: Literal["sglang"] = "sglang"


class Sglang(ModelServer):
    """Plans an SGLang server."""

    def plan(self, name: str, service: SglangService, site: Site) -> Launch:
        """The launch module of SGLang."""
        sizes: dict[str, object] = {
            "--tp-size": service.tensor_parallel_size,
            "--pp-size": service.pipeline_parallel_size,
            "--dp-size": service.data_parallel_size,
            "--reasoning-parser": service.reasoning_parser,
            "--tool-call-parser": service.tool_parser,
        }
        arguments = ["--model-path", model_path(service, site), *listening(service, name, site), *flags(sizes)]
        argv = keyed_module(site, "sglang.launch_server", [*arguments, *service.extra_args])
        if service.num_nodes > 1:
            meeting = f'--node-rank "$rank" --dist-init-addr "$head:{meeting_port(service, site)}"'
            argv = in_shell(NODE_LINES, [f"exec {shlex.join(argv)} --nnodes {service.num_nodes} {meeting}"])
        return model_launch(name, service, site, argv, image="lmsysorg/sglang:latest", key=KEY_VARIABLE)


KIND: Final = Kind(SglangService, Sglang)
