"""The definition that ``@benchmark`` makes: what an environment is built from, and the facts for people."""

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
    """How published scores of a benchmark are made, and whether ours may be compared with them."""

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
    # Whether a benchmark that needs a judge has a fallback scorer, which every row then names.
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
    # Examples in the order of their dataset, not in a random one.
    fewshot_in_order: bool = False
    # Other protocols by their name in `params: {protocol: ...}`: the fields of this definition that they replace.
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
        if self.function is None:
            return None
        file = source_file(self.function)
        return file.parent if file else None

    @property
    def description(self) -> str:
        """What the benchmark is: the docstring of its module, else of its function."""
        module = inspect.getmodule(self.function) if self.function else None
        module_text = inspect.getdoc(module) if module else None
        return module_text or self.scoring

    @property
    def scoring(self) -> str:
        """How answers are judged: the docstring of the benchmark's function."""
        text = inspect.getdoc(self.function) if self.function else None
        return text or ""


def check_requirements(requirements: Sequence[str], benchmark: str) -> None:
    """Refuse a benchmark whose libraries are absent, before the first request.

    Raises:
        UsageError: A requirement is not installed or cannot be parsed; the hint is the command that installs it.
    """
    missing = [line for line in requirements if not _is_met(line, benchmark)]
    if missing:
        quoted = " ".join(f'"{line}"' for line in missing)
        raise UsageError(
            f"benchmark {benchmark!r} needs {', '.join(missing)}", hint=f"pip install {quoted}"
        )


def read_requirements(value: Sequence[str] | str | None, folder: Path | None) -> list[str]:
    """The lines of ``requirements=``: a list, one requirement, or the path of a requirements file."""
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
    """The requirements of a file, without comments and options of pip."""
    lines = [line.split("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("-")]


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
