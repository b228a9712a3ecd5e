"""Solvers: one file per kind. Public names load on first use."""

from __future__ import annotations

from nemo_evaluator.core.lazy import lazy_names

_MODULES = {
    "base": ("Solver", "SolverContext"),
    "simple": ("ChatSolver", "CompletionSolver", "SimpleSolver", "VLMSolver"),
    "tool_calling": ("ReActSolver=ToolCallingSolver", "ToolCallingSolver"),
    "oracle": ("OracleSolver",),
    "nemo_evaluator.core.types": ("ErrorKind", "SolveResult"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
