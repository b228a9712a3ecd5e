"""Your own benchmark in ten lines.

::

    @benchmark(name="capitals", dataset="capitals.jsonl", prompt="The capital of {country}?", target_field="city")
    @scorer
    def capitals(sample: ScorerInput) -> dict:
        return exact_match(sample)
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from nemo_evaluator.core.code_words import source_file
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments._environment import DEFAULT_PROTOCOL, BenchmarkEnvironment
from nemo_evaluator.environments._scorer_code import settings_read
from nemo_evaluator.environments.clusters import ClusterKey, Independent
from nemo_evaluator.environments.definition import (
    BenchmarkDefinition,
    BenchmarkInfo,
    DatasetSource,
    FewShotFormat,
    JudgeFunction,
    Published,
    RowFunction,
    SeedFunction,
    SummaryFunction,
    read_requirements,
)
from nemo_evaluator.environments.registry import register
from nemo_evaluator.scoring.types import ScorerInput

__all__ = [
    "BenchmarkInfo",
    "Independent",
    "Published",
    "ScorerInput",
    "benchmark",
    "image_builder",
    "scorer",
]

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V")
_ENDPOINTS = ("chat", "completions")


def benchmark(
    name: str,
    dataset: DatasetSource,
    prompt: str = "",
    target_field: str = "target",
    endpoint_type: str = "chat",
    system_prompt: str | None = None,
    field_mapping: Mapping[str, str] | None = None,
    extra: JsonDict | None = None,
    requirements: Sequence[str] | str | None = None,
    prepare_row: RowFunction | None = None,
    seed_fn: SeedFunction | None = None,
    *,
    fewshot: int = 0,
    fewshot_split: str | None = None,
    fewshot_dataset: DatasetSource | None = None,
    fewshot_format: FewShotFormat | None = None,
    fewshot_by: str | None = None,
    protocols: Mapping[str, JsonDict] | None = None,
    carried: Sequence[str] = (),
    params: JsonDict | None = None,
    judge_prompt: JudgeFunction | None = None,
    parse_judge: JudgeFunction | None = None,
    summary: SummaryFunction | None = None,
    cluster: ClusterKey = None,
    info: BenchmarkInfo | None = None,
    scorer_config: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[[F], F]:
    """Register the decorated scorer as a benchmark; ``scorer_config`` becomes the scorer's ``sample.config``.

    The decorator returns the scorer unchanged.

    ``cluster`` is the column, or a function of the row, whose value problems share that belong together, such as the
    questions on one passage; intervals and comparisons respect these clusters. ``Independent("reason")`` says that
    there are none.

    A function without parameters is not a scorer: nel then compares answers with the target, ignoring case. Other
    keywords are settings of the scorer too, if it reads ``sample.config`` by that name. See the guide "Write your own
    benchmark" for every parameter.

    Raises:
        UsageError: ``endpoint_type`` or a keyword is unknown.
    """
    _check_endpoint_type(name, endpoint_type)
    template = BenchmarkDefinition(
        name=name,
        dataset=dataset,
        prompt=prompt,
        target_field=target_field,
        endpoint_type=endpoint_type,
        system_prompt=system_prompt,
        field_mapping=_merged(field_mapping),
        extra=_merged(extra, scorer_config, kwargs),
        prepare_row=prepare_row,
        seed_fn=seed_fn,
        fewshot=fewshot,
        fewshot_split=fewshot_split,
        fewshot_dataset=fewshot_dataset,
        fewshot_format=fewshot_format,
        fewshot_by=fewshot_by,
        protocols=_merged(protocols),
        carried=tuple(carried),
        params=_params(params, protocols),
        judge_prompt=judge_prompt,
        parse_judge=parse_judge,
        summary=summary,
        cluster=cluster,
        info=info or BenchmarkInfo(),
    )

    return _Registration(template, requirements, keywords=kwargs)


def _check_endpoint_type(name: str, endpoint_type: str) -> None:
    """Check that a benchmark uses an endpoint that nel has.

    Raises:
        UsageError: It does not.
    """
    if endpoint_type not in _ENDPOINTS:
        raise UsageError(
            f"{name}: endpoint_type {endpoint_type!r} is not one of {', '.join(_ENDPOINTS)}"
        )


def _merged(*settings: Mapping[str, V] | None) -> dict[str, V]:
    """A new dict with all settings; later ones replace earlier ones, and None adds none."""
    merged: dict[str, V] = {}
    for mapping in settings:
        merged.update(mapping or {})
    return merged


def _params(params: JsonDict | None, protocols: Mapping[str, JsonDict] | None) -> JsonDict:
    """The parameters of a benchmark with their defaults; one with protocols has a parameter that selects one."""
    if not protocols:
        return _merged(params)
    return {"protocol": DEFAULT_PROTOCOL, **_merged(params)}


@dataclass(frozen=True, slots=True)
class _Registration:
    """The decorator that ``benchmark`` returns.

    Attributes:
        template: The definition without what the decorated function adds.
        requirements: The libraries of the benchmark, or the file that lists them.
        keywords: The keywords that are settings of the scorer.
    """

    template: BenchmarkDefinition
    requirements: Sequence[str] | str | None
    keywords: JsonDict

    def __call__(self, function: F) -> F:
        """Register an environment class for the scorer.

        Args:
            function: The scorer; a function without parameters is not one.

        Returns:
            The same function.

        Raises:
            UsageError: A keyword is neither one of ``@benchmark`` nor a setting that the scorer reads.
        """
        name = self.template.name
        definition = self._completed(function)
        members = {"definition": definition, "name": name}
        environment = type(f"Benchmark_{name}", (BenchmarkEnvironment,), members)
        register(name)(environment)
        function.environment = environment  # type: ignore[attr-defined]
        return function

    def _completed(self, function: Callable[..., Any]) -> BenchmarkDefinition:
        """The definition with the scorer, and with what depends on its file."""
        is_marked = getattr(function, "_is_scorer", False)
        is_scorer = is_marked or inspect.signature(function).parameters
        score = function if is_scorer else None
        _check_keywords(self.template.name, self.keywords, score)
        file = source_file(function)
        folder = file.parent if file else Path.cwd()
        return replace(
            self.template,
            requirements=read_requirements(self.requirements, folder),
            score=score,
            image_builder=getattr(function, "_image_builder", None),
            function=function,
        )


def _check_keywords(name: str, keywords: JsonDict, score: Callable[..., Any] | None) -> None:
    """Check that the scorer reads each additional keyword.

    Raises:
        UsageError: A keyword is neither one of ``@benchmark`` nor a setting that the scorer reads.
    """
    if not keywords:
        return
    settings: set[str] = set()
    if score is not None:
        settings = settings_read(score)
    unread_keywords = [key for key in keywords if key not in settings]
    if unread_keywords:
        key = unread_keywords[0]
        known_keywords = list(inspect.signature(benchmark).parameters)
        known_keywords.remove("kwargs")
        also = f"settings of the scorer belong in scorer_config={{{key!r}: ...}}"
        raise UsageError(
            f"{name}: @benchmark has no keyword {key!r}",
            hint=did_you_mean(key, known_keywords, also=also),
        )


def scorer(function: F) -> F:
    """Mark a function as the scorer of the benchmark whose decorator is above."""
    function._is_scorer = True  # type: ignore[attr-defined]
    return function


def image_builder(builder: Callable[..., Any]) -> Callable[[F], F]:
    """Give a benchmark a function that returns the images its rows need; write it between the two other decorators.

    Args:
        builder: Takes the rows, and returns an ``ImageBuildRequest``.
    """

    def decorate(function: F) -> F:
        function._image_builder = builder  # type: ignore[attr-defined]
        return function

    return decorate
