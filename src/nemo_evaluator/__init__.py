"""nel: an evaluator for language models and agents. Public names load on first use."""

from __future__ import annotations

import importlib
from typing import Any, Final

_HOMES: Final = {
    "__version__": "_version",
    "EvalEnvironment": "environments.base",
    "SeedResult": "core.types",
    "VerifyResult": "core.types",
    "register": "environments.registry",
    "get_environment": "environments.registry",
    "list_environments": "environments.registry",
    "load_benchmark_file": "environments.registry",
    "benchmark": "environments.custom",
    "scorer": "environments.custom",
    "ScorerInput": "scoring",
    "exact_match": "scoring",
    "multichoice_regex": "scoring",
    "answer_line": "scoring",
    "fuzzy_match": "scoring",
    "numeric_match": "scoring",
    "code_sandbox": "scoring",
    "code_sandbox_async": "scoring",
    "needs_judge": "scoring",
    "run_evaluation": "engine.api",
    "ModelClient": "adapters.model_client",
    "Solver": "solvers.base",
    "SolveResult": "core.types",
    "ChatSolver": "solvers.simple",
    "CompletionSolver": "solvers.simple",
    "VLMSolver": "solvers.simple",
}

__package_name__: Final = "nemo-evaluator"
__all__ = sorted([*_HOMES, "__package_name__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
