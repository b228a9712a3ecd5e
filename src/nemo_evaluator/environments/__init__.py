"""Environments: the contract, the @benchmark API, URI schemes. Public names load on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.environments._environment import (
        BenchmarkEnvironment as BenchmarkEnvironment,
    )
    from nemo_evaluator.environments.base import EvalEnvironment as EvalEnvironment
    from nemo_evaluator.environments.custom import benchmark as benchmark
    from nemo_evaluator.environments.custom import image_builder as image_builder
    from nemo_evaluator.environments.custom import scorer as scorer
    from nemo_evaluator.environments.definition import BenchmarkInfo as BenchmarkInfo
    from nemo_evaluator.environments.registry import environment_class as environment_class
    from nemo_evaluator.environments.registry import get_environment as get_environment
    from nemo_evaluator.environments.registry import list_environments as list_environments
    from nemo_evaluator.environments.registry import load_benchmark_file as load_benchmark_file
    from nemo_evaluator.environments.registry import register as register
    from nemo_evaluator.scoring.types import ScorerInput as ScorerInput

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "BenchmarkEnvironment": "nemo_evaluator.environments._environment",
        "BenchmarkInfo": "nemo_evaluator.environments.definition",
        "EvalEnvironment": "nemo_evaluator.environments.base",
        "ScorerInput": "nemo_evaluator.scoring.types",
        "benchmark": "nemo_evaluator.environments.custom",
        "environment_class": "nemo_evaluator.environments.registry",
        "get_environment": "nemo_evaluator.environments.registry",
        "image_builder": "nemo_evaluator.environments.custom",
        "list_environments": "nemo_evaluator.environments.registry",
        "load_benchmark_file": "nemo_evaluator.environments.registry",
        "register": "nemo_evaluator.environments.registry",
        "scorer": "nemo_evaluator.environments.custom",
    },
)
