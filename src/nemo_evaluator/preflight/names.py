"""Checks of the config itself: kinds that are not supported, and names that do not exist."""

from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel

from nemo_evaluator.config import BenchmarkConfig, EvalConfig, ScoringConfig
from nemo_evaluator.config.fields import NotYet
from nemo_evaluator.config.groups import SCHEMES
from nemo_evaluator.config.kinds import KindOf, marks
from nemo_evaluator.core.kinds import NOT_YET, Kinds
from nemo_evaluator.core.registry import did_you_mean, find_file
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import JUDGES, NEEDS_JUDGE, judge_hint, lacks_judge
from nemo_evaluator.environments.base import EnvironmentFacts
from nemo_evaluator.environments.registry import as_uri, environment_class, list_environments
from nemo_evaluator.preflight.obstacle import ConfigPath, Obstacle, obstacles_of

# Named in the reference's examples and playbooks, but not supported yet.
_PLANNED: Final = frozenset({"research-bench"})
_LISTED: Final = "see `nel list` for those that are"


def unsupported_kinds(config: EvalConfig) -> Iterator[Obstacle]:
    """Yield kinds that are declared ``missing``, and settings marked ``NotYet``."""
    return _unsupported(config, (), list(config.sandboxes.values()))


def unknown_names(config: EvalConfig) -> Iterator[Obstacle]:
    """Yield benchmarks, rubrics and templates that do not exist, and benchmarks that lack a judge."""
    for index, benchmark in enumerate(config.benchmarks):
        path = ("benchmarks", index)
        name_problems = list(_unknown_benchmark(benchmark.name, (*path, "name")))
        yield from name_problems
        name = as_uri(benchmark.name)
        # Whether a benchmark in a file or behind a URI needs a judge is only known once it is opened.
        is_built_in = "://" not in name and ".py" not in name
        if is_built_in and not name_problems:
            facts = environment_class(name).facts()
            yield from missing_judge(benchmark.scoring, name, facts, path=(*path, "scoring"))
        yield from _missing_rubrics(benchmark, path)
        yield from obstacles_of(
            (*path, "instruction_template"),
            load_template,
            benchmark.instruction_template,
            hint="give a path, or off",
        )


def missing_judge(
    scoring: ScoringConfig, name: str, facts: EnvironmentFacts, path: ConfigPath
) -> Iterator[Obstacle]:
    """Yield a problem for a benchmark that needs a judge if the config names none.

    Args:
        scoring: The benchmark's scoring settings.
        name: The benchmark's name, for the message.
        facts: What the benchmark needs.
        path: The path of its scoring settings in the config.
    """
    if not scoring.include_defaults or scoring.primary is not None:
        return
    if any(metric.type in JUDGES for metric in scoring.metrics):
        return
    if lacks_judge(facts, allow_fallback=scoring.allow_fallback):
        yield Obstacle(path, f"{name}: {NEEDS_JUDGE}", judge_hint(facts))


def _unsupported(model: BaseModel, path: ConfigPath, named: list[Any]) -> Iterator[Obstacle]:
    """Yield the unsupported kinds in a schema object and in those inside it.

    Args:
        model: The schema object.
        path: Its path in the config.
        named: The sandboxes that the config defines by name; each is reported where it is defined.
    """
    for name, mark in marks(type(model), NotYet):
        if name in model.model_fields_set and getattr(model, name):
            message = f"the setting {name!r} is {mark.reason}"
            yield Obstacle((*path, name), message, "remove it")
    kinds_of_field = {name: mark.kinds for name, mark in marks(type(model), KindOf)}
    for name in type(model).model_fields:
        kinds = kinds_of_field.get(name)
        for inner_path, inner in _schema_objects(getattr(model, name), (*path, name)):
            if inner_path[-1] == "sandbox" and inner in named:
                continue
            if kinds is not None:
                yield from _missing_kind(kinds, inner, inner_path)
            yield from _unsupported(inner, inner_path, named)


def _missing_kind(kinds: Kinds, settings: BaseModel, path: ConfigPath) -> Iterator[Obstacle]:
    """Yield a problem if settings are those of a kind that is not supported."""
    kind_name = getattr(settings, "type", "")
    missing_reason = kinds.get(kind_name).missing
    if missing_reason is not None:
        message = f"{kinds.kind} {kind_name!r} is {missing_reason}"
        yield Obstacle((*path, "type"), message, f"supported: {', '.join(kinds.ready())}")


def _schema_objects(value: Any, path: ConfigPath) -> Iterator[tuple[ConfigPath, BaseModel]]:
    """Yield the schema objects in the value of a field, including those in lists and mappings."""
    if isinstance(value, BaseModel):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _schema_objects(item, (*path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _schema_objects(item, (*path, index))


def _missing_rubrics(benchmark: BenchmarkConfig, path: ConfigPath) -> Iterator[Obstacle]:
    """Yield rubric files of judges that do not exist."""
    for index, metric in enumerate(benchmark.scoring.metrics):
        file = getattr(metric, "rubric_file", None)
        if file is not None:
            file_path = (*path, "scoring", "metrics", index, "rubric_file")
            yield from obstacles_of(file_path, find_file, file, hint="")


def _unknown_benchmark(name: str, path: ConfigPath) -> Iterator[Obstacle]:
    """Yield what is wrong with the name of a benchmark: a URI, a file, or a registered name."""
    scheme, separator, _ = as_uri(name).partition("://")
    if separator:
        missing_reason = SCHEMES.get(scheme).missing
        if missing_reason is not None:
            message = f"{scheme}:// benchmarks are {missing_reason}"
            yield Obstacle(path, message, _LISTED)
        return
    file = name if name.endswith(".py") else name.rpartition(":")[0]
    if file.endswith(".py"):
        yield from obstacles_of(path, find_file, file, hint="")
        return
    lower_name = name.lower()
    with_underscores = lower_name.replace("-", "_")
    with_hyphens = lower_name.replace("_", "-")
    if with_hyphens in _PLANNED:
        yield Obstacle(path, f"benchmark {name!r} is {NOT_YET}", _LISTED)
        return
    known_names = list_environments()
    if lower_name not in known_names and with_underscores not in known_names:
        hint = did_you_mean(name, known_names)
        yield Obstacle(path, f"unknown benchmark {name!r}", hint)
