"""How often each problem is answered: as the config says, else as the benchmark asks."""

from nemo_evaluator.config import BenchmarkConfig
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments.base import EvalEnvironment


def repeats_of(bench: BenchmarkConfig, environment: EvalEnvironment) -> int:
    """Return the answers per problem: those of the config, else those that the benchmark asks for.

    Raises:
        UsageError: If the benchmark cannot aggregate so few answers.
    """
    repeats = bench.repeats
    if "repeats" not in bench.model_fields_set:
        repeats = environment.own_repeats
    least = environment.least_repeats
    if repeats < least:
        raise UsageError(
            f"{bench.key} aggregates at least {least} answers per problem, not {repeats}",
            hint=f"set repeats: {least} or more, or leave it out",
        )
    return repeats
