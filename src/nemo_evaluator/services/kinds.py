"""The kinds of managed services, by their YAML word. Third parties add theirs by entry point."""

from __future__ import annotations

from typing import Final

from nemo_evaluator.core.registry import Registry
from nemo_evaluator.services.base import ServiceKind

KINDS: Final[Registry[ServiceKind]] = Registry("service type", group="nemo_evaluator.services")
KINDS.add("llama_cpp", "nemo_evaluator.services.llama_cpp:KIND")
KINDS.add("gym", "nemo_evaluator.services.gym:KIND")
KINDS.add("sglang", "nemo_evaluator.services.sglang:KIND")
KINDS.add("vllm", "nemo_evaluator.services.vllm:KIND")
