"""Solvers: one file per kind. Public names load on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.core.types import ErrorKind as ErrorKind
    from nemo_evaluator.core.types import SolveResult as SolveResult
    from nemo_evaluator.solvers.base import Solver as Solver
    from nemo_evaluator.solvers.base import SolverContext as SolverContext
    from nemo_evaluator.solvers.harbor import HarborSolver as HarborSolver
    from nemo_evaluator.solvers.oracle import OracleSolver as OracleSolver
    from nemo_evaluator.solvers.simple import ChatSolver as ChatSolver
    from nemo_evaluator.solvers.simple import CompletionSolver as CompletionSolver
    from nemo_evaluator.solvers.simple import SimpleSolver as SimpleSolver
    from nemo_evaluator.solvers.simple import VLMSolver as VLMSolver
    from nemo_evaluator.solvers.tool_calling import ToolCallingSolver as ToolCallingSolver

    ReActSolver = ToolCallingSolver

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ChatSolver": "nemo_evaluator.solvers.simple",
        "CompletionSolver": "nemo_evaluator.solvers.simple",
        "ErrorKind": "nemo_evaluator.core.types",
        "HarborSolver": "nemo_evaluator.solvers.harbor",
        "OracleSolver": "nemo_evaluator.solvers.oracle",
        "ReActSolver": "nemo_evaluator.solvers.tool_calling:ToolCallingSolver",
        "SimpleSolver": "nemo_evaluator.solvers.simple",
        "SolveResult": "nemo_evaluator.core.types",
        "Solver": "nemo_evaluator.solvers.base",
        "SolverContext": "nemo_evaluator.solvers.base",
        "ToolCallingSolver": "nemo_evaluator.solvers.tool_calling",
        "VLMSolver": "nemo_evaluator.solvers.simple",
    },
)
