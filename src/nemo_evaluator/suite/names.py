"""Names in a config that other rooms must know: benchmarks, templates, files.

Checked before anything is started, so that a misspelt name costs nothing.
"""

from collections.abc import Iterator

from nemo_evaluator.config import BenchmarkConfig, Document, EvalConfig
from nemo_evaluator.config.groups import SCHEMES
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.core.kinds import NOT_YET
from nemo_evaluator.core.registry import did_you_mean, find_file
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import JUDGES, NEEDS_JUDGE, judge_hint, lacks_judge
from nemo_evaluator.environments.registry import as_uri, environment_class, list_environments

# Known from the reference's examples and playbooks; their harness is not here yet.
_PLANNED = frozenset({"research-bench"})
Found = tuple[tuple[str | int, ...], str, str]


def check_names(config: EvalConfig, *, document: Document | None = None) -> None:
    """Raise ConfigError with every name that nothing answers to; ``document`` gives the problems their lines."""
    place = document or Document({})
    problems = [place.problem(*found) for found in _unknown(config)]
    if problems:
        raise ConfigError(problems)


def _unknown(config: EvalConfig) -> Iterator[Found]:
    for number, benchmark in enumerate(config.benchmarks):
        unknown = list(_benchmark(benchmark.name, ("benchmarks", number, "name")))
        yield from unknown or _judge(benchmark, ("benchmarks", number, "scoring"))
        for place, metric in enumerate(benchmark.scoring.metrics):
            if (file := getattr(metric, "rubric_file", None)) is not None:
                yield from _file(file, ("benchmarks", number, "scoring", "metrics", place, "rubric_file"))
        yield from _template(benchmark.instruction_template, ("benchmarks", number, "instruction_template"))


def _benchmark(name: str, path: tuple[str | int, ...]) -> Iterator[Found]:
    scheme, separator, _ = as_uri(name).partition("://")
    if separator:
        if (why := SCHEMES.get(scheme).missing) is not None:
            yield path, f"{scheme}:// benchmarks are {why}", "see `nel list` for those that are"
        return
    file = name if name.endswith(".py") else name.rpartition(":")[0]
    if file.endswith(".py"):
        yield from _file(file, path)
    elif name.lower().replace("_", "-") in _PLANNED:
        yield path, f"benchmark {name!r} is {NOT_YET}", "see `nel list` for those that are"
    elif not {name.lower(), name.lower().replace("-", "_")} & set(list_environments()):
        yield path, f"unknown benchmark {name!r}", did_you_mean(name, list_environments())


def _judge(benchmark: BenchmarkConfig, path: tuple[str | int, ...]) -> Iterator[Found]:
    """A registered benchmark that needs a judge and has none; those in files and behind URIs say so when opened."""
    scoring, name = benchmark.scoring, as_uri(benchmark.name)
    own = scoring.include_defaults and scoring.primary is None
    if "://" in name or ".py" in name or not own or any(metric.type in JUDGES for metric in scoring.metrics):
        return
    facts = environment_class(name).facts()
    if lacks_judge(facts, allow_fallback=scoring.allow_fallback):
        yield path, f"{name}: {NEEDS_JUDGE}", judge_hint(facts)


def _file(name: str, path: tuple[str | int, ...]) -> Iterator[Found]:
    try:
        find_file(name)
    except UsageError as error:
        yield path, error.message, error.hint or ""


def _template(name: str | None, path: tuple[str | int, ...]) -> Iterator[Found]:
    try:
        load_template(name)
    except UsageError as error:
        yield path, error.message, error.hint or "give a path, or off"
