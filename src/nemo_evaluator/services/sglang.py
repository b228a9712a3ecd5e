"""``type: sglang``: an SGLang server as a process of this machine."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services._python_server import plan_python_server, python_server_identity
from nemo_evaluator.services.base import Launch


class SglangService(ManagedService):
    """An SGLang server."""

    type: Literal["sglang"] = "sglang"


class Sglang:
    """Plans an SGLang server."""

    def plan(self, name: str, service: SglangService) -> Launch:
        """The launch module of SGLang."""
        sizes = {
            "--tp-size": service.tensor_parallel_size,
            "--pp-size": service.pipeline_parallel_size,
            "--dp-size": service.data_parallel_size,
        }
        return plan_python_server(name, service, "sglang.launch_server", "--model-path", sizes)

    def identity(self, service: SglangService) -> JsonDict:
        """The model and how it is served."""
        return python_server_identity("sglang", service)


KIND: Final = Kind(SglangService, Sglang)
