"""``type: trt_llm``: a TensorRT-LLM server."""

import shutil
from typing import Final, Literal

from nemo_evaluator.config.managed_service import EngineService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services._model_server import ModelServer, Planned

_IMAGE: Final = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
# The third, for data parallelism, does not exist; that setting is refused.
_FLAGS: Final = "--tp_size", "--pp_size", "", "--reasoning_parser", "--tool_parser"


class TrtLlmService(EngineService):
    """A TensorRT-LLM server."""

    type: Literal["trt_llm"] = "trt_llm"


class TrtLlm(ModelServer[TrtLlmService]):
    """Plans ``trtllm-serve``, which supports no API key and accepts every model name."""

    def launch(self, server: Planned[TrtLlmService]) -> Launch:
        """``trtllm-serve serve`` with the flags of the config."""
        server.refuse("data_parallel_size", "use replicas")
        server.refuse("num_nodes", "use replicas, or vllm for one model over nodes")
        if server.site.here and shutil.which("trtllm-serve") is None:
            hint = f"pip install tensorrt-llm, or give services.{server.name}.image"
            raise UsageError("trtllm-serve is not on PATH", hint=hint)
        argv = ["trtllm-serve", "serve", server.model]
        argv += ["--host", server.site.bind, "--port", str(server.port)]
        argv += server.engine_flags(*_FLAGS)
        argv += server.service.extra_args
        return server.launch(argv, image=_IMAGE)


KIND: Final = Kind(TrtLlmService, TrtLlm)
