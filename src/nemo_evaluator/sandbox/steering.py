"""Which changes of a workspace steer the tests that run in it: a table of files, and how a change is matched."""

from __future__ import annotations

import configparser
import json
import re
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from nemo_evaluator.sandbox._installed_packages import may_be_dependency
from nemo_evaluator.sandbox.snapshot import Change, Snapshot, SnapshotEntry

_TABLE: Final = Path(__file__).with_name("steering.toml")
_TASK_TEST: Final = "a file with the name of one of the task's tests"
_PATCHED: Final = "a file that the task's tests change"
_TEST_FILE: Final = re.compile(r"(?:test_.*|.*_test|conftest)\.py")
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class SteeringRule:
    """One kind of steering file."""

    #: What the files do, for messages.
    what: str
    #: Patterns for the name of a file, and for its path.
    names: tuple[str, ...] = ()
    paths: tuple[re.Pattern[str], ...] = ()
    # Whether a known solution that changes one such file allows all of them.
    allows_all: bool = False
    # Whether a new file may belong to a package that only the solution needs.
    may_be_work: bool = False

    def matches(self, path: str) -> bool:
        """Whether the rule applies to a path."""
        name = PurePosixPath(path).name
        if any(fnmatchcase(name, pattern) for pattern in self.names):
            return True
        return any(pattern.fullmatch(path) for pattern in self.paths)


@dataclass(frozen=True, slots=True)
class Table:
    """The content of ``steering.toml``."""

    rules: tuple[SteeringRule, ...]
    # By file name: what the file does, and the sections that count.
    sections: Mapping[str, tuple[str, tuple[str, ...]]]
    programs: Mapping[str, Any]
    shadows: Mapping[str, Any]
    modules: frozenset[str]


@dataclass(frozen=True, slots=True)
class SteeringChange:
    """A change of one steering file.

    Attributes:
        what: What the file does.
        change: Whether it was created, changed or removed.
        allows_all: Whether a known solution that changes one such file allows all of them.
        may_be_work: Whether the file may also be a part of the solution: it only shares its name with a module of the
            standard library, or belongs to a package that the solution needs.
        is_of_tests: Whether the tests bring the file, so that they name it although the task does not ask for it.
    """

    what: str
    change: Change
    allows_all: bool = False
    may_be_work: bool = False
    is_of_tests: bool = False


@cache
def table() -> Table:
    """The table, read once."""
    content = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    rules: list[SteeringRule] = []
    sections: dict[str, tuple[str, tuple[str, ...]]] = {}
    for entry in content["rule"]:
        for name, parts in entry.get("sections", {}).items():
            sections[name] = (entry["what"], tuple(parts))
        patterns = tuple(_pattern(path) for path in entry.get("paths", ()))
        names = tuple(entry.get("names", ()))
        rules.append(
            SteeringRule(
                entry["what"],
                names,
                patterns,
                allows_all=entry.get("allow") == "rule",
                may_be_work=entry.get("may_be_work", False),
            )
        )
    shadows = content["shadows"]
    modules = (sys.stdlib_module_names | set(shadows["names"])) - set(shadows["not"])
    return Table(
        tuple(rules), sections, content["programs"], shadows=shadows, modules=frozenset(modules)
    )


def sectioned_files() -> frozenset[str]:
    """Names of files of which only some sections count: snapshots keep their text."""
    return frozenset(table().sections)


def steering_changes(
    before: Snapshot,
    after: Snapshot,
    changes: Mapping[str, Change],
    task_tests: Collection[str] = (),
    start_folders: Collection[str] = (),
    patched_paths: Collection[str] = (),
    test_words: Collection[str] = (),
) -> dict[str, SteeringChange]:
    """Select the changes that steer tests.

    Args:
        before: the workspace at the start of the task.
        after: the workspace as the agent left it.
        changes: all changes between the two.
        task_tests: the names of the files in the task's own tests.
        start_folders: folders in which the tests start programs, besides the usual ones.
        patched_paths: files that the tests change.
        test_words: all words in the task's tests.

    Returns:
        The steering changes by path.
    """
    roots = _import_roots(after) | set(start_folders)
    steering_by_path: dict[str, SteeringChange] = {}
    for path, change in changes.items():
        if _is_patched(path, patched_paths):
            steering_by_path[path] = SteeringChange(_PATCHED, change, is_of_tests=True)
            continue
        steering = _steering_change(
            path,
            change,
            before,
            after=after,
            roots=roots,
            task_tests=task_tests,
            test_words=test_words,
        )
        if steering is not None:
            steering_by_path[path] = steering
    return steering_by_path


def _steering_change(
    path: str,
    change: Change,
    before: Snapshot,
    after: Snapshot,
    roots: Collection[str],
    task_tests: Collection[str],
    test_words: Collection[str],
) -> SteeringChange | None:
    """How a change steers tests; None when it does not."""
    entry = after.get(path) or before[path]
    name = PurePosixPath(path).name
    if _takes_place_of_test(path, task_tests):
        return SteeringChange(_TASK_TEST, change, allows_all=True, is_of_tests=True)
    # An empty folder steers nothing, unless it takes the place of a file.
    if entry.kind == "folder" and change == "created":
        return None
    section = table().sections.get(name)
    if section is not None and _sections_differ(
        name, before.get(path), after.get(path), sections=section[1]
    ):
        return SteeringChange(section[0], change)
    for rule in table().rules:
        if rule.matches(path):
            may_be_work = (
                rule.may_be_work
                and change == "created"
                and may_be_dependency(path, before, reserved=table().modules, test_words=test_words)
            )
            return SteeringChange(rule.what, change, rule.allows_all, may_be_work)
    if _is_program(path, entry):
        return SteeringChange(table().programs["what"], change)
    if change == "created":
        shadowed_module = _shadowed_module(path, before, after, roots=roots)
        if shadowed_module is not None:
            return SteeringChange(
                table().shadows["what"], change, may_be_work=_may_be_work(shadowed_module)
            )
    return None


def _is_patched(path: str, patched_paths: Collection[str]) -> bool:
    """Whether a change may keep the tests from changing a file: it is the file, or one in its place or on its way."""
    return any(
        other == path or other.startswith(f"{path}/") or path.startswith(f"{other}/")
        for other in patched_paths
    )


def _takes_place_of_test(path: str, task_tests: Collection[str]) -> bool:
    """Whether Python would take a path, or something that it lies in, for one of the task's tests."""
    modules = {PurePosixPath(name).stem for name in task_tests if _TEST_FILE.fullmatch(name)}
    return any(part.split(".")[0] in modules for part in PurePosixPath(path).parts)


def _pattern(glob: str) -> re.Pattern[str]:
    """A path pattern: ``**/`` is any folders or none, a closing ``/**`` anything below, ``*`` a part of one name."""
    text = ""
    for piece in re.split(r"(\*\*/|/\*\*$|\*)", glob):
        if piece == "**/":
            text += "(?:.*/)?"
        elif piece == "/**":
            text += "/.*"
        elif piece == "*":
            text += "[^/]*"
        else:
            text += re.escape(piece)
    return re.compile(text, re.DOTALL)


def _is_program(path: str, entry: SnapshotEntry) -> bool:
    """Whether a path is a program, on the search path, that tests may start."""
    programs = table().programs
    place = PurePosixPath(path)
    folder = "" if len(place.parts) == 1 else str(place.parent)
    can_run = entry.executable or entry.kind == "link"
    return can_run and place.name in programs["names"] and folder in programs["folders"]


def _import_roots(after: Snapshot) -> set[str]:
    """Folders in which Python looks for modules, judged by names: the usual ones, and those with tests."""
    roots = set(table().shadows["folders"])
    for path in after:
        place = PurePosixPath(path)
        if _TEST_FILE.fullmatch(place.name) and len(place.parts) > 1:
            roots.add(str(place.parent))
    # Python does not search a folder that is a package.
    return {root for root in roots if not root or f"{root}/__init__.py" not in after}


def _may_be_work(module: str) -> bool:
    """Whether a program may have a module of its own with the name of this one."""
    shadows = table().shadows
    is_of_a_runner = module in shadows["names"] or module in shadows["runners"]
    return module in sys.stdlib_module_names and not is_of_a_runner


def _shadowed_module(
    path: str, before: Snapshot, after: Snapshot, roots: Collection[str]
) -> str | None:
    """The name of the module that tests may import and that a new file takes the place of; None if there is none."""
    parts = PurePosixPath(path).parts
    for depth, part in enumerate(parts):
        root = "/".join(parts[:depth])
        module = part.split(".")[0]
        if root not in roots or module not in table().modules:
            continue
        top = "/".join(parts[: depth + 1])
        if depth == len(parts) - 1:
            # A link may lead to a package.
            is_module = part.endswith((".py", ".so", ".pyd", ".zip")) or after[path].kind == "link"
            if is_module and top not in before:
                return module
        elif f"{top}/__init__.py" not in before and _is_package(top, after):
            return module
    return None


def _is_package(folder: str, snapshot: Snapshot) -> bool:
    return any(f"{folder}/__init__{end}" in snapshot for end in (".py", ".pyc", ".so"))


def _sections_differ(
    name: str, before: SnapshotEntry | None, after: SnapshotEntry | None, sections: tuple[str, ...]
) -> bool:
    """Whether a section that counts differs between two versions of a file; any change counts if one is unreadable."""
    content_before = _parsed(name, before)
    content_after = _parsed(name, after)
    if content_before is None or content_after is None:
        return True
    return any(
        _part(content_before, section) != _part(content_after, section) for section in sections
    )


def _parsed(name: str, entry: SnapshotEntry | None) -> dict[str, Any] | None:
    """The content of a configuration file: empty for a missing file, None for one that cannot be parsed."""
    if entry is None:
        return {}
    if entry.kind != "file" or entry.text is None:
        return None
    try:
        text = entry.text.decode()
        if name.endswith(".toml"):
            return tomllib.loads(text)
        if name.endswith(".json"):
            value = json.loads(text)
            return value if isinstance(value, dict) else None
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        return {section: dict(parser[section]) for section in parser.sections()}
    except (ValueError, configparser.Error, RecursionError):
        return None


def _part(content: dict[str, Any], section: str) -> Any:
    """A section by its full name, as in INI files, else by the path of nested tables that its name spells."""
    if section in content:
        return content[section]
    value: Any = content
    for name in section.split("."):
        if not isinstance(value, dict):
            return _MISSING
        value = value.get(name, _MISSING)
    return value
