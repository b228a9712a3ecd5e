"""What ``@benchmark`` was told: the definition from which environments are made, and what is told to people."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from nemo_evaluator.core.code_words import source_file
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.values import dataclass, field

DatasetSource: TypeAlias = str | Path | Callable[..., Any]
FewShotFormat: TypeAlias = str | Callable[[JsonDict], str]


@dataclass(frozen=True, slots=True)
class Published:
    """How published scores of a benchmark are made, and whether ours may stand beside them."""

    # Examples, reasoning, generation or log-likelihood, grader.
    protocol: str
    # What ours does otherwise.
    differs: str
    # yes, nearly or no; with the reason where the difference does not say it.
    comparable: str


@dataclass(frozen=True, slots=True)
class BenchmarkInfo:
    """What people want to know before they run a benchmark."""

    title: str = ""
    group: str = "custom"
    # Number of problems of the whole dataset; None when it is not fixed.
    size: int | None = None
    scorer: str = ""
    # judge, sandbox, images, tools, gated
    needs: tuple[str, ...] = ()
    # Whether a benchmark that needs a judge can say something without one, and says so in every row.
    judge_optional: bool = False
    license: str = ""
    source: str = ""
    # Columns of the dataset that are read.
    columns: tuple[str, ...] = ()
    # Where the category of a problem comes from.
    categories: str = ""
    # Parameters of `params:`, with what they do.
    params: dict[str, str] = field(default_factory=dict)
    published: Published | None = None


@dataclass(slots=True)
class BenchmarkDefinition:
    """One benchmark as its author wrote it."""

    name: str
    dataset: DatasetSource
    prompt: str = ""
    target_field: str = "target"
    endpoint_type: str = "chat"
    system_prompt: str | None = None
    field_mapping: dict[str, str] = field(default_factory=dict)
    extra: JsonDict = field(default_factory=dict)
    requirements: list[str] = field(default_factory=list)
    prepare_row: Callable[..., JsonDict] | None = None
    seed_fn: Callable[..., SeedResult] | None = None
    fewshot: int = 0
    fewshot_split: str | None = None
    fewshot_dataset: DatasetSource | None = None
    fewshot_format: FewShotFormat | None = None
    fewshot_by: str | None = None
    # Examples as they stand in their dataset, not in a random order.
    fewshot_in_order: bool = False
    # Other ways to ask, by the word for `params: {protocol: ...}`: what they set anew in this definition.
    protocols: dict[str, JsonDict] = field(default_factory=dict)
    # Columns that result files need not repeat, besides those that the prompt names and the target.
    carried: tuple[str, ...] = ()
    params: JsonDict = field(default_factory=dict)
    judge_prompt: Callable[..., Any] | None = None
    parse_judge: Callable[..., Any] | None = None
    # From the scoring details of all rows to further numbers of the benchmark.
    summary: Callable[..., dict[str, float]] | None = None
    info: BenchmarkInfo = field(default_factory=BenchmarkInfo)
    score: Callable[..., Any] | None = None
    image_builder: Callable[..., Any] | None = None
    # The function under the decorator: its file says where relative paths start, its docstring what this is.
    function: Callable[..., Any] | None = None

    @property
    def folder(self) -> Path | None:
        """The folder of the file that defines the benchmark."""
        if self.function:
            file = source_file(self.function)
        else:
            file = None
        return file.parent if file else None

    @property
    def description(self) -> str:
        """What the benchmark is: the docstring of its module, else of its function."""
        if self.function:
            module = inspect.getmodule(self.function)
        else:
            module = None
        return (inspect.getdoc(module) if module else None) or self.scoring

    @property
    def scoring(self) -> str:
        """How answers are judged: the docstring of the benchmark's function."""
        return (inspect.getdoc(self.function) if self.function else None) or ""


def check_requirements(requirements: Sequence[str], benchmark: str) -> None:
    """Refuse a benchmark whose libraries are absent, before anything is asked."""
    missing = [line for line in requirements if not _is_met(line, benchmark)]
    if missing:
        wanted = " ".join(f'"{line}"' for line in missing)
        raise UsageError(
            f"benchmark {benchmark!r} needs {', '.join(missing)}", hint=f"pip install {wanted}"
        )


def read_requirements(value: Sequence[str] | str | None, folder: Path | None) -> list[str]:
    """The lines of ``requirements=``: a list, one requirement, or the path of a requirements file."""
    if value is None:
        return []
    if not isinstance(value, str):
        return list(value)
    for path in (Path(value), *((folder / value,) if folder else ())):
        if path.is_file():
            lines = (
                line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()
            )
            return [line for line in lines if line and not line.startswith("-")]
    return [value]


def _is_met(line: str, benchmark: str) -> bool:
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
