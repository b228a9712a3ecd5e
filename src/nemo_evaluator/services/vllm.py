"""``type: vllm``: a vLLM server as a process of this machine."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services._python_server import plan_python_server, python_server_identity
from nemo_evaluator.services.base import Launch


class VllmService(ManagedService):
    """A vLLM server."""

    type: Literal["vllm"] = "vllm"


class Vllm:
    """Plans a vLLM server."""

    def plan(self, name: str, service: VllmService) -> Launch:
        """The OpenAI server module of vLLM."""
        sizes = {
            "--tensor-parallel-size": service.tensor_parallel_size,
            "--pipeline-parallel-size": service.pipeline_parallel_size,
            "--data-parallel-size": service.data_parallel_size,
        }
        return plan_python_server(name, service, "vllm.entrypoints.openai.api_server", "--model", sizes)

    def identity(self, service: VllmService) -> JsonDict:
        """The model and how it is served."""
        return python_server_identity("vllm", service)


KIND: Final = Kind(VllmService, Vllm)
