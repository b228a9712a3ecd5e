"""nel: an evaluator for language models and agents. Public names load on first use.

``__init__.pyi`` beside this file gives editors and type checkers the same names; a test keeps the two equal.
"""

from __future__ import annotations

from typing import Final

from nemo_evaluator.core.lazy import lazy_names

_MODULES: Final = {
    "_version": ("__version__",),
    "adapters.model_client": ("ModelClient",),
    "core.types": ("SeedResult", "SolveResult", "VerifyResult"),
    "engine.api": ("run_evaluation",),
    "environments.base": ("EvalEnvironment",),
    "environments.custom": ("benchmark", "scorer"),
    "environments.registry": ("get_environment", "list_environments", "load_benchmark_file", "register"),
    "runs.folder": ("open_run",),
    "scoring": (
        "ScorerInput",
        "answer_line",
        "code_sandbox",
        "code_sandbox_async",
        "exact_match",
        "fuzzy_match",
        "multichoice_regex",
        "needs_judge",
        "numeric_match",
    ),
    "solvers.base": ("Solver",),
    "solvers.simple": ("ChatSolver", "CompletionSolver", "VLMSolver"),
}

__package_name__: Final = "nemo-evaluator"
__getattr__, _, _names = lazy_names(__name__, {f"{__name__}.{home}": names for home, names in _MODULES.items()})
__all__ = sorted([*_names, "__package_name__"])


def __dir__() -> list[str]:
    return __all__
