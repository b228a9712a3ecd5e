"""The definition that ``@benchmark`` creates: how to build the environment, and facts for its documentation."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from nemo_evaluator.core.code_words import source_file
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.environments.clusters import ClusterKey

DatasetSource: TypeAlias = str | Path | Callable[..., Any]
FewShotFormat: TypeAlias = str | Callable[[JsonDict], str]
# Functions of a benchmark's author; each may declare fewer parameters than nel could pass.
RowFunction: TypeAlias = Callable[..., JsonDict]
SeedFunction: TypeAlias = Callable[..., SeedResult]
JudgeFunction: TypeAlias = Callable[..., Any]
SummaryFunction: TypeAlias = Callable[..., dict[str, float]]


@dataclass(frozen=True, slots=True)
class Published:
    """How published scores of a benchmark are made, and whether our scores are comparable with them."""

    # The number of examples, reasoning or not, generation or log-likelihood, and the grader.
    protocol: str
    # What our implementation does differently.
    differs: str
    # yes, nearly or no; with the reason if the difference does not explain it.
    comparable: str


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    """Facts about a benchmark that users want to know before they run it."""

    title: str = ""
    group: str = "custom"
    # The number of problems in the whole dataset; None if it is not fixed.
    size: int | None = None
    scorer: str = ""
    # Any of: judge, sandbox, images, tools, gated.
    needs: tuple[str, ...] = ()
    # Whether a benchmark that needs a judge has a fallback scorer, which every row it scored names.
    judge_optional: bool = False
    # The scores of ``summary`` that represent the benchmark, if the mean reward does not.
    headline: tuple[str, ...] = ()
    license: str = ""
    source: str = ""
    # The dataset columns that the benchmark reads.
    columns: tuple[str, ...] = ()
    # The source of a problem's category.
    categories: str = ""
    # The parameters for `params:` and their effects.
    params: dict[str, str] = field(default_factory=dict)
    published: Published | None = None


@dataclass(slots=True)
class BenchmarkDefinition:
    """A benchmark as its author wrote it."""

    name: str
    dataset: DatasetSource
    prompt: str = ""
    target_field: str = "target"
    endpoint_type: str = "chat"
    system_prompt: str | None = None
    field_mapping: dict[str, str] = field(default_factory=dict)
    extra: JsonDict = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    prepare_row: RowFunction | None = None
    seed_fn: SeedFunction | None = None
    fewshot: int = 0
    fewshot_split: str | None = None
    fewshot_dataset: DatasetSource | None = None
    fewshot_format: FewShotFormat | None = None
    fewshot_by: str | None = None
    # Whether examples keep the order of their dataset, instead of a random one.
    fewshot_in_order: bool = False
    # Alternatives for `params: {protocol: ...}`, by name: the fields of this definition that they replace.
    protocols: dict[str, JsonDict] = field(default_factory=dict)
    # Columns that result files can omit, besides the target and the columns in the prompt.
    carried: tuple[str, ...] = ()
    params: JsonDict = field(default_factory=dict)
    judge_prompt: JudgeFunction | None = None
    parse_judge: JudgeFunction | None = None
    # Computes further scores of the benchmark from the scoring details of all rows.
    summary: SummaryFunction | None = None
    # What problems of one cluster share, or why there are no clusters; None if the author does not say.
    cluster: ClusterKey = None
    info: BenchmarkInfo = field(default_factory=BenchmarkInfo)
    score: Callable[..., Any] | None = None
    image_builder: Callable[..., Any] | None = None
    # The decorated function; its file is the base of relative paths, and its docstring describes the benchmark.
    function: Callable[..., Any] | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the file that defines the benchmark."""
        if self.function is None:
            return None
        file = source_file(self.function)
        return file.parent if file else None

    @property
    def description(self) -> str:
        """The description of the benchmark: the docstring of its module, else of its function."""
        module = inspect.getmodule(self.function) if self.function else None
        module_docstring = inspect.getdoc(module) if module else None
        return module_docstring or self.scoring

    @property
    def scoring(self) -> str:
        """How answers are scored: the docstring of the benchmark's function."""
        docstring = inspect.getdoc(self.function) if self.function else None
        return docstring or ""


def check_requirements(requirements: Sequence[str], benchmark: str) -> None:
    """Check that the libraries of a benchmark are installed, before the first request.

    Raises:
        UsageError: A requirement is not installed or cannot be parsed; the hint is the command that installs it.
    """
    missing = [requirement for requirement in requirements if not _is_met(requirement, benchmark)]
    if missing:
        quoted = " ".join(f'"{requirement}"' for requirement in missing)
        raise UsageError(
            f"benchmark {benchmark!r} needs {', '.join(missing)}", hint=f"pip install {quoted}"
        )


def read_requirements(value: Sequence[str] | str | None, folder: Path | None) -> list[str]:
    """Return the requirements as a list.

    Args:
        value: A list, one requirement, or the path of a requirements file.
        folder: A second folder for relative paths.
    """
    if value is None:
        return []
    if not isinstance(value, str):
        return list(value)
    paths = [Path(value)]
    if folder is not None:
        paths.append(folder / value)
    for path in paths:
        if path.is_file():
            return _requirement_lines(path.read_text(encoding="utf-8"))
    return [value]


def _requirement_lines(text: str) -> list[str]:
    """Return the requirements in a file, without comments and pip options."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


def _is_met(line: str, benchmark: str) -> bool:
    """Return whether a requirement is installed, or does not apply on this machine."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - few benchmarks name any

    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415

    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise UsageError(
            f"benchmark {benchmark!r}: cannot read the requirement {line!r}: {error}"
        ) from error
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False
