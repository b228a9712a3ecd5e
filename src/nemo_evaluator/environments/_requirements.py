"""The libraries that a benchmark says it needs."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nemo_evaluator.core.errors import UsageError


def check_requirements(requirements: Sequence[str], benchmark: str) -> None:
    """Refuse a benchmark whose libraries are absent, before anything is asked."""
    missing = [line for line in requirements if not _is_met(line, benchmark)]
    if missing:
        wanted = " ".join(f'"{line}"' for line in missing)
        raise UsageError(f"benchmark {benchmark!r} needs {', '.join(missing)}", hint=f"pip install {wanted}")


def read_requirements(value: Sequence[str] | str | None, folder: Path | None) -> list[str]:
    """The lines of ``requirements=``: a list, one requirement, or the path of a requirements file."""
    if value is None:
        return []
    if not isinstance(value, str):
        return list(value)
    for path in (Path(value), *((folder / value,) if folder else ())):
        if path.is_file():
            lines = (line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
            return [line for line in lines if line and not line.startswith("-")]
    return [value]


def _is_met(line: str, benchmark: str) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - few benchmarks name any

    try:
        requirement = Requirement(line)
    except InvalidRequirement as error:
        raise UsageError(f"benchmark {benchmark!r}: cannot read the requirement {line!r}: {error}") from error
    if requirement.marker is not None and not requirement.marker.evaluate():
        return True
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False
