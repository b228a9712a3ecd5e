"""``type: trt_llm``: a TensorRT-LLM server."""

from __future__ import annotations

from typing import Final, Literal

from nemo_evaluator.config.service_base import ManagedService
from nemo_evaluator.core.kinds import NOT_YET, Kind


class TrtLlmService(ManagedService):
    """A TensorRT-LLM server."""

    type: Literal["trt_llm"] = "trt_llm"


KIND: Final = Kind(TrtLlmService, missing=NOT_YET)
