"""nel: an evaluator for language models and agents. Public names load on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core import hooks as _hooks
from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
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
    from nemo_evaluator.solvers.nat import NatSolver as NatSolver
    from nemo_evaluator.solvers.openclaw import OpenClawSolver as OpenClawSolver
    from nemo_evaluator.solvers.simple import ChatSolver as ChatSolver
    from nemo_evaluator.solvers.simple import CompletionSolver as CompletionSolver
    from nemo_evaluator.solvers.simple import VLMSolver as VLMSolver

__package_name__ = "nemo-evaluator"
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ChatSolver": "nemo_evaluator.solvers.simple",
        "CompletionSolver": "nemo_evaluator.solvers.simple",
        "EvalEnvironment": "nemo_evaluator.environments.base",
        "ModelClient": "nemo_evaluator.adapters.model_client",
        "NatSolver": "nemo_evaluator.solvers.nat",
        "OpenClawSolver": "nemo_evaluator.solvers.openclaw",
        "ScorerInput": "nemo_evaluator.scoring",
        "SeedResult": "nemo_evaluator.core.types",
        "SolveResult": "nemo_evaluator.core.types",
        "Solver": "nemo_evaluator.solvers.base",
        "VLMSolver": "nemo_evaluator.solvers.simple",
        "VerifyResult": "nemo_evaluator.core.types",
        "__version__": "nemo_evaluator._version",
        "answer_line": "nemo_evaluator.scoring",
        "benchmark": "nemo_evaluator.environments.custom",
        "code_sandbox": "nemo_evaluator.scoring",
        "code_sandbox_async": "nemo_evaluator.scoring",
        "exact_match": "nemo_evaluator.scoring",
        "fuzzy_match": "nemo_evaluator.scoring",
        "get_environment": "nemo_evaluator.environments.registry",
        "list_environments": "nemo_evaluator.environments.registry",
        "load_benchmark_file": "nemo_evaluator.environments.registry",
        "multichoice_regex": "nemo_evaluator.scoring",
        "needs_judge": "nemo_evaluator.scoring",
        "numeric_match": "nemo_evaluator.scoring",
        "open_run": "nemo_evaluator.runs.folder",
        "register": "nemo_evaluator.environments.registry",
        "run_evaluation": "nemo_evaluator.engine.api",
        "scorer": "nemo_evaluator.environments.custom",
    },
    own=["__package_name__"],
)
# The status of a bundle is found by a package above the one that reads bundles.
_hooks.check_bundle.bind("nemo_evaluator.decisions.check.check_run:check_run")
