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
