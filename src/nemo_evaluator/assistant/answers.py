"""The answers to the five questions, and the lengths in tokens that follow from them."""

from dataclasses import dataclass
from typing import Final

# The longest answer of a type of model, in tokens; a server needs room for the prompt besides it.
_ANSWER: Final = {"reasoning": 32_768, "chat_reasoning": 131_072}
_PROMPT_TOKENS: Final = 8_192
_CONTEXT: Final = 32_768


@dataclass(frozen=True, slots=True)
class SetupAnswers:
    """The answers to the five questions."""

    execution: str = "local"
    deployment: str = "none"
    export: str = "none"
    model_type: str = "chat"
    benchmarks: tuple[str, ...] = ("standard",)

    @property
    def run_as(self) -> str:
        """The type of model whose benchmarks it runs: hybrid models run as reasoning models."""
        return "reasoning" if self.model_type == "chat_reasoning" else self.model_type

    @property
    def lengths(self) -> dict[str, int]:
        """The longest answer (0: nothing special) and the context that a server needs for it, in tokens."""
        answer = _ANSWER.get(self.model_type, 0)
        context = answer + _PROMPT_TOKENS if answer else _CONTEXT
        return {"answer": answer, "context": context}

    @property
    def file_name(self) -> str:
        """The default file name, such as ``slurm_vllm_reasoning_math_reasoning_standard.yaml``."""
        benchmarks = sorted(set(self.benchmarks))
        parts = [self.execution, self.deployment, self.model_type, *benchmarks]
        return "_".join(parts) + ".yaml"
