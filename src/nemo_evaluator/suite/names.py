"""Names in a config that other rooms must know: benchmarks, scorers, interceptors, exporters, files.

Checked before anything is started, so that a misspelt name costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nemo_evaluator.adapters.registry import interceptor_registry
from nemo_evaluator.config import BenchmarkConfig, Document, EvalConfig, MetricConfig, ModelService, ScorerMetric
from nemo_evaluator.core.errors import ConfigError, UsageError
from nemo_evaluator.core.registry import Registry, nearest
from nemo_evaluator.engine.template import load_template
from nemo_evaluator.engine.verify import JUDGES, NEEDS_JUDGE, judge_hint, lacks_judge
from nemo_evaluator.environments.registry import SCHEMES, environment_class, list_environments
from nemo_evaluator.exporters.registry import EXPORTERS
from nemo_evaluator.scoring.registry import scorers

Found = tuple[tuple[str | int, ...], str, str]


def check_names(config: EvalConfig, *, document: Document | None = None) -> None:
    """Raise ConfigError with every name that nothing answers to; ``document`` gives the problems their lines."""
    place = document or Document({})
    problems = [place.problem(*found) for found in _unknown(config, place)]
    if problems:
        raise ConfigError(problems)


def _unknown(config: EvalConfig, document: Document) -> Iterator[Found]:
    for service_name, service in config.services.items():
        stages = service.proxy.interceptors if isinstance(service, ModelService) and service.proxy else []
        short = ("services", service_name, "interceptors")
        written = short if short in document.marks else ("services", service_name, "proxy", "interceptors")
        for number, stage in enumerate(stages):
            if ":" not in stage.name and not stage.name.endswith(".py"):
                yield from _in(interceptor_registry, stage.name, (*written, number, "name"))
    for number, benchmark in enumerate(config.benchmarks):
        unknown = list(_benchmark(benchmark.name, ("benchmarks", number, "name")))
        yield from unknown or _judge(benchmark, ("benchmarks", number, "scoring"))
        for place, metric in enumerate(benchmark.scoring.metrics):
            if isinstance(metric, ScorerMetric):
                yield from _in(scorers, metric.name, ("benchmarks", number, "scoring", "metrics", place, "name"))
            yield from _rubric(metric, ("benchmarks", number, "scoring", "metrics", place, "rubric_file"))
        yield from _template(benchmark.instruction_template, ("benchmarks", number, "instruction_template"))
    for number, name in enumerate(config.output.export):
        yield from _in(EXPORTERS, name, ("output", "export", number))


def _benchmark(name: str, path: tuple[str | int, ...]) -> Iterator[Found]:
    scheme, separator, _ = name.partition("://")
    if separator:
        if scheme not in SCHEMES:
            yield path, f"unknown scheme {scheme}://", _hint(scheme, SCHEMES)
        elif SCHEMES[scheme] is None:
            yield path, f"{scheme}:// benchmarks are not built in this version", "see `nel list` for those that are"
        return
    file = name if name.endswith(".py") else name.rpartition(":")[0]
    if file.endswith(".py"):
        if not Path(file).expanduser().is_file():
            yield path, f"there is no file {file!r}", "the path is taken relative to the current folder"
    elif not {name.lower(), name.lower().replace("-", "_")} & set(list_environments()):
        yield path, f"unknown benchmark {name!r}", _hint(name, list_environments())


def _judge(benchmark: BenchmarkConfig, path: tuple[str | int, ...]) -> Iterator[Found]:
    """A registered benchmark that needs a judge and has none; those in files and behind URIs say so when opened."""
    scoring, name = benchmark.scoring, benchmark.name
    own = scoring.include_defaults and scoring.primary is None
    if "://" in name or ".py" in name or not own or any(metric.type in JUDGES for metric in scoring.metrics):
        return
    environment = environment_class(name)
    if lacks_judge(environment, allow_fallback=scoring.allow_fallback):
        yield path, f"{name}: {NEEDS_JUDGE}", judge_hint(environment)


def _rubric(metric: MetricConfig, path: tuple[str | int, ...]) -> Iterator[Found]:
    file = getattr(metric, "rubric_file", None)
    if file is not None and not Path(file).expanduser().is_file():
        yield path, f"there is no file {file!r}", "the path is taken relative to the current folder"


def _template(name: str | None, path: tuple[str | int, ...]) -> Iterator[Found]:
    try:
        load_template(name)
    except UsageError as error:
        yield path, error.message, error.hint or "give a path, or off"


def _in(registry: Registry[Any], name: str, path: tuple[str | int, ...]) -> Iterator[Found]:
    if name not in registry:
        yield path, f"unknown {registry.kind} {name!r}", _hint(name, registry.names())


def _hint(word: str, known: Iterable[str]) -> str:
    words = list(known)
    close = nearest(word, words)
    return f"did you mean {close!r}?" if close else f"known: {', '.join(words)}"
