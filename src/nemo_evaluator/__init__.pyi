# The names of __init__.py, for editors and type checkers.
from nemo_evaluator._version import __version__ as __version__
from nemo_evaluator.adapters.model_client import ModelClient as ModelClient
from nemo_evaluator.core.types import SeedResult as SeedResult
from nemo_evaluator.core.types import SolveResult as SolveResult
from nemo_evaluator.core.types import VerifyResult as VerifyResult
from nemo_evaluator.engine.api import run_evaluation as run_evaluation
from nemo_evaluator.environments.base import EvalEnvironment as EvalEnvironment
from nemo_evaluator.environments.custom import benchmark as benchmark
from nemo_evaluator.environments.custom import scorer as scorer
from nemo_evaluator.environments.registry import get_environment as get_environment
from nemo_evaluator.environments.registry import list_environments as list_environments
from nemo_evaluator.environments.registry import load_benchmark_file as load_benchmark_file
from nemo_evaluator.environments.registry import register as register
from nemo_evaluator.runs.folder import open_run as open_run
from nemo_evaluator.scoring import ScorerInput as ScorerInput
from nemo_evaluator.scoring import answer_line as answer_line
from nemo_evaluator.scoring import code_sandbox as code_sandbox
from nemo_evaluator.scoring import code_sandbox_async as code_sandbox_async
from nemo_evaluator.scoring import exact_match as exact_match
from nemo_evaluator.scoring import fuzzy_match as fuzzy_match
from nemo_evaluator.scoring import multichoice_regex as multichoice_regex
from nemo_evaluator.scoring import needs_judge as needs_judge
from nemo_evaluator.scoring import numeric_match as numeric_match
from nemo_evaluator.solvers.base import Solver as Solver
from nemo_evaluator.solvers.simple import ChatSolver as ChatSolver
from nemo_evaluator.solvers.simple import CompletionSolver as CompletionSolver
from nemo_evaluator.solvers.simple import VLMSolver as VLMSolver

__package_name__: str
