"""``type: trt_llm``: a TensorRT-LLM server."""

import shutil
from typing import Final, Literal

from nemo_evaluator.config.service_base import EngineService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.services._model_server import (
    ModelServer,
    flags,
    model_launch,
    model_path,
    port_of,
    refuse_setting,
)
from nemo_evaluator.services.base import Launch, Site


class TrtLlmService(EngineService):
    """A TensorRT-LLM server."""

    type: Literal["trt_llm"] = "trt_llm"


class TrtLlm(ModelServer):
    """Plans a TensorRT-LLM server."""

    def plan(self, name: str, service: TrtLlmService, site: Site) -> Launch:
        """``trtllm-serve``. It asks for no key, and answers to every model name."""
        refuse_setting(name, "data_parallel_size", service.data_parallel_size, "use replicas")
        refuse_setting(name, "num_nodes", service.num_nodes > 1, "use replicas, or vllm for one model over nodes")
        if site.here and shutil.which("trtllm-serve") is None:
            hint = f"pip install tensorrt-llm, or give services.{name}.image"
            raise UsageError("trtllm-serve is not on PATH", hint=hint)
        argv = ["trtllm-serve", "serve", model_path(service, site), "--host", site.bind]
        argv += flags(
            {
                "--port": port_of(service, site),
                "--tp_size": service.tensor_parallel_size,
                "--pp_size": service.pipeline_parallel_size,
                "--reasoning_parser": service.reasoning_parser,
                "--tool_parser": service.tool_parser,
            }
        )
        image = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
        return model_launch(name, service, site, [*argv, *service.extra_args], image=image)


KIND: Final = Kind(TrtLlmService, TrtLlm)
