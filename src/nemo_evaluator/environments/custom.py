"""Your own benchmark in ten lines.

::

    @benchmark(name="capitals", dataset="capitals.jsonl", prompt="The capital of {country}?", target_field="city")
    @scorer
    def capitals(sample: ScorerInput) -> dict:
        return exact_match(sample)
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from nemo_evaluator.core.code_words import source_file
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.environments._environment import DEFAULT_PROTOCOL, BenchmarkEnvironment
from nemo_evaluator.environments._scorer_code import settings_read
from nemo_evaluator.environments.definition import (
    BenchmarkDefinition,
    BenchmarkInfo,
    DatasetSource,
    FewShotFormat,
    Published,
    read_requirements,
)
from nemo_evaluator.environments.registry import register
from nemo_evaluator.scoring.types import ScorerInput

__all__ = ["BenchmarkInfo", "Published", "ScorerInput", "benchmark", "image_builder", "scorer"]

F = TypeVar("F", bound=Callable[..., Any])
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
    prepare_row: Callable[..., JsonDict] | None = None,
    seed_fn: Callable[..., SeedResult] | None = None,
    *,
    fewshot: int = 0,
    fewshot_split: str | None = None,
    fewshot_dataset: DatasetSource | None = None,
    fewshot_format: FewShotFormat | None = None,
    fewshot_by: str | None = None,
    protocols: Mapping[str, JsonDict] | None = None,
    carried: Sequence[str] = (),
    params: JsonDict | None = None,
    judge_prompt: Callable[..., Any] | None = None,
    parse_judge: Callable[..., Any] | None = None,
    summary: Callable[..., dict[str, float]] | None = None,
    info: BenchmarkInfo | None = None,
    scorer_config: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Callable[[F], F]:
    """Register the decorated scorer as a benchmark; ``scorer_config`` becomes the scorer's ``sample.config``.

    A function without parameters is not a scorer: nel then compares answers with the target, ignoring case. Other
    keywords are settings of the scorer too, if it reads ``sample.config`` by that name. See the guide "Write your own
    benchmark" for every parameter.

    Raises:
        UsageError: ``endpoint_type`` or a keyword is unknown.
    """
    if endpoint_type not in _ENDPOINTS:
        raise UsageError(
            f"{name}: endpoint_type {endpoint_type!r} is not one of {', '.join(_ENDPOINTS)}"
        )
    own_params: JsonDict = {"protocol": DEFAULT_PROTOCOL} if protocols else {}
    definition = BenchmarkDefinition(
        name=name,
        dataset=dataset,
        prompt=prompt,
        target_field=target_field,
        endpoint_type=endpoint_type,
        system_prompt=system_prompt,
        field_mapping=dict(field_mapping or {}),
        extra={**(extra or {}), **(scorer_config or {}), **kwargs},
        prepare_row=prepare_row,
        seed_fn=seed_fn,
        fewshot=fewshot,
        fewshot_split=fewshot_split,
        fewshot_dataset=fewshot_dataset,
        fewshot_format=fewshot_format,
        fewshot_by=fewshot_by,
        protocols=dict(protocols or {}),
        carried=tuple(carried),
        params=own_params | (params or {}),
        judge_prompt=judge_prompt,
        parse_judge=parse_judge,
        summary=summary,
        info=info or BenchmarkInfo(),
    )

    def decorate(function: F) -> F:
        """Register an environment class for the scorer, and return the scorer unchanged."""
        _register(definition, function, requirements, keywords=kwargs)
        return function

    return decorate


def _register(
    template: BenchmarkDefinition,
    function: Callable[..., Any],
    requirements: Sequence[str] | str | None,
    *,
    keywords: JsonDict,
) -> None:
    """Complete the definition with the decorated function, and register an environment class for it."""
    is_scorer = getattr(function, "_is_scorer", False) or inspect.signature(function).parameters
    score = function if is_scorer else None
    _check_keywords(template.name, keywords, score)
    file = source_file(function)
    folder = file.parent if file else Path.cwd()
    definition = replace(
        template,
        requirements=read_requirements(requirements, folder),
        score=score,
        image_builder=getattr(function, "_image_builder", None),
        function=function,
    )
    name = definition.name
    environment = type(
        f"Benchmark_{name}", (BenchmarkEnvironment,), {"definition": definition, "name": name}
    )
    register(name)(environment)
    function.environment = environment  # type: ignore[attr-defined]


def _check_keywords(name: str, keywords: JsonDict, score: Callable[..., Any] | None) -> None:
    """Check that the scorer reads each additional keyword.

    Raises:
        UsageError: A keyword is neither one of ``@benchmark`` nor a setting that the scorer reads.
    """
    if not keywords:
        return
    settings = settings_read(score) if score is not None else set()
    known_keywords = [key for key in inspect.signature(benchmark).parameters if key != "kwargs"]
    for key in keywords:
        if key not in settings:
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
