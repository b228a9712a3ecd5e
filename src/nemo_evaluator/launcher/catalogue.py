"""The launcher's tasks (``data/tasks.yaml``): harness, endpoint, and the nel benchmark that replaces each."""

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_names
from nemo_evaluator.launcher.table import read_data

_FILE: Final = "tasks.yaml"
_NEEDS: Final = ("judge", "sandbox", "gated", "logprobs")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the launcher's catalogue.

    Attributes:
        endpoint: The type of endpoint that the task needs, such as ``chat``.
        image: The container of its harness.
        nel: The benchmark or URI of nel that replaces it; None: only the container runs it.
        params: Parameters of that benchmark.
        defaults: The harness's default settings.
        needs: What it needs besides a model, such as ``judge``.
        listed: Whether the catalogue lists it.
    """

    name: str
    harness: str
    endpoint: str
    image: str
    nel: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    listed: bool = True

    @property
    def full_name(self) -> str:
        """The name with its harness: ``harness.task``."""
        if self.harness:
            return f"{self.harness}.{self.name}"
        return self.name

    @property
    def container(self) -> str:
        """The URI that runs the task in its harness's own container."""
        return f"container://{self.image}#{self.name}"


@cache
def catalogue() -> tuple[Task, ...]:
    """Return all listed tasks; a family of tasks is listed once, under a name with ``*``."""
    tasks: list[Task] = []
    for harness, harness_data in read_data(_FILE)["harnesses"].items():
        for name, row in harness_data["tasks"].items():
            tasks.append(_task(harness, name, row))
    return tuple(tasks)


def find_task(name: str, container: str | None = None) -> Task:
    """Find a task by name, with or without its harness.

    Args:
        name: The name of the task, or a benchmark or URI of nel, which stands for itself.
        container: The image to run the task in; then the catalogue need not list the task.

    Raises:
        UsageError: If the name is unknown or ambiguous; the hint suggests names.
    """
    data = read_data(_FILE)
    name = data["aliases"].get(name, name)
    harness, _, short = name.rpartition(".")
    matches = _fitting(harness, short)
    if "://" in name:
        return _own_benchmark(name)
    if not harness and not container and not matches and name in builtin_names():
        return _own_benchmark(name)
    if container:
        if matches:
            return replace(matches[0], image=container)
        return Task(short, harness, "chat", image=container, listed=False)
    names = data["ambiguous"].get(name) or [task.full_name for task in matches]
    if len(names) > 1:
        raise UsageError(
            f"the task name {name!r} is ambiguous", hint=f"write one of: {', '.join(names)}"
        )
    if matches:
        return matches[0]
    if harness in data["harnesses"]:
        return replace(_task(harness, short, {}), listed=False)
    known_names: list[str] = []
    for task in catalogue():
        known_names += [task.full_name, task.name]
    hint = did_you_mean(name, dict.fromkeys(known_names), "`nel ls tasks` lists them")
    raise UsageError(f"no task is called {name!r}", hint=f"{hint}; or give the task a container")


def _own_benchmark(name: str) -> Task:
    """Return the task that stands for a benchmark or URI of nel."""
    return Task(name, "", "chat", image="", nel=name)


def _fitting(harness: str, short: str) -> list[Task]:
    """Return the tasks with this name, else the members of a family that have it.

    A family that accepts every name is used only if the harness is given.
    """
    harness_tasks = [task for task in catalogue() if harness in ("", task.harness)]
    exact = [task for task in harness_tasks if task.name == short]
    if exact:
        return exact
    member_of_harness: dict[str, Task] = {}
    for family in harness_tasks:
        if family.name == "*" and not harness:
            continue
        wildcard = re.search(r"[*?]", family.name)
        if wildcard is None or not fnmatch.fnmatchcase(short, family.name):
            continue
        member = _member(family, short, wildcard_text=short[wildcard.start() :])
        member_of_harness.setdefault(family.harness, member)
    return list(member_of_harness.values())


def _member(family: Task, name: str, wildcard_text: str) -> Task:
    """Return the member of a family of tasks.

    Args:
        family: The family, whose parameters contain ``*`` where the members differ.
        name: The name of the member.
        wildcard_text: The part of the name that differs between members.
    """
    params: dict[str, list[Any]] = {}
    for key, values in family.params.items():
        params[key] = [wildcard_text if value == "*" else value for value in values]
    return replace(family, name=name, params=params)


def _task(harness: str, name: str, row: JsonDict) -> Task:
    """Build a task from its row in the catalogue and the settings of its harness."""
    data = read_data(_FILE)
    harness_data = data["harnesses"][harness]
    image_name = harness_data.get("image", harness)
    return Task(
        name=name,
        harness=harness,
        endpoint=row.get("type", harness_data["type"]),
        image=f"{data['registry']}/{image_name}:{data['tag']}",
        nel=row.get("nel"),
        params=row.get("params", {}),
        defaults={**harness_data.get("defaults", {}), **row.get("defaults", {})},
        needs=tuple(need for need in _NEEDS if row.get(need)),
    )
