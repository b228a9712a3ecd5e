"""Checks before a run starts; ``find_problems`` is the only entry point."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.preflight.problems import find_problems as find_problems

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "find_problems": "nemo_evaluator.preflight.problems",
    },
)
