"""Environments: the contract, the @benchmark API, URI schemes."""

from nemo_evaluator.environments._environment import BenchmarkEnvironment
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, image_builder, scorer
from nemo_evaluator.environments.registry import (
    environment_class,
    get_environment,
    list_environments,
    load_benchmark_file,
    register,
)

__all__ = [
    "BenchmarkEnvironment",
    "BenchmarkInfo",
    "EvalEnvironment",
    "ScorerInput",
    "benchmark",
    "environment_class",
    "get_environment",
    "image_builder",
    "list_environments",
    "load_benchmark_file",
    "register",
    "scorer",
]
