"""The launcher's tasks (``data/catalogue.json``): harness, endpoint, container image and default parameters."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypedDict

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_names
from nemo_evaluator.launcher.table import read_data

_FILE: Final = Path(__file__).parent / "data" / "catalogue.json"


class TaskRow(TypedDict, total=False):
    """A task in the file; a key is absent if the task does not differ from its harness.

    Attributes:
        task: The harness's own name of the task; absent: the same.
        types: Endpoint types.
        params: Default parameters.
        extra: Default parameters of this harness only; null: unset.
        without: The harness's extra parameters that the task does not have.
    """

    task: str
    types: list[str]
    params: JsonDict
    extra: JsonDict
    without: list[str]


class HarnessRow(TypedDict):
    """A harness in the file, with what most of its tasks share."""

    image: str
    types: list[str]
    params: JsonDict
    extra: JsonDict
    tasks: dict[str, TaskRow]


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the launcher's catalogue.

    Attributes:
        endpoint: The type of endpoint that the task needs, such as ``chat``.
        image: The container of its harness; empty for a benchmark of nel.
        own_name: The harness's own name of the task, which several tasks may share; empty if unknown.
        defaults: The catalogue's default parameters: ``config.params``, with ``extra`` nested.
        listed: Whether the catalogue lists it.
    """

    name: str
    harness: str
    endpoint: str
    image: str
    own_name: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)
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
    """Return all tasks of the catalogue."""
    tasks: list[Task] = []
    for harness, harness_row in _harnesses().items():
        for name, row in harness_row["tasks"].items():
            tasks.append(_task(harness, name, harness_row=harness_row, row=row))
    return tuple(tasks)


def find_task(name: str, container: str | None = None) -> Task:
    """Find a task by name: alone if only one harness has it, otherwise with its harness.

    Args:
        name: The name of the task, or a benchmark or URI of nel, which stands for itself.
        container: The image to run the task in; then the catalogue need not list the task.

    Raises:
        UsageError: If the name is unknown or ambiguous; the hint suggests names.
    """
    if "://" in name:
        return _own_benchmark(name)
    harness, _, short_name = name.rpartition(".")
    matches = _tasks_called(harness, short_name)
    if container:
        return _task_in_image(matches, harness, short_name, image=container)
    if len(matches) > 1:
        candidates = ", ".join(task.full_name for task in matches)
        raise UsageError(f"the task name {name!r} is ambiguous", hint=f"write one of: {candidates}")
    if matches:
        return matches[0]
    if not harness and name in builtin_names():
        return _own_benchmark(name)
    if harness in _harnesses() and short_name:
        return _unlisted(harness, short_name)
    known_names: list[str] = []
    for task in catalogue():
        known_names += [task.full_name, task.name]
    hint = did_you_mean(name, dict.fromkeys(known_names), "`nel ls tasks` lists them")
    raise UsageError(f"no task is called {name!r}", hint=f"{hint}; or give the task a container")


def _tasks_called(harness: str, short_name: str) -> list[Task]:
    """Return the tasks with a name, of one harness or of all."""
    matches: list[Task] = []
    for task in catalogue():
        if task.name == short_name and harness in ("", task.harness):
            matches.append(task)
    return matches


def _own_benchmark(name: str) -> Task:
    """Return the task that stands for a benchmark or URI of nel."""
    return Task(name, "", "chat", image="")


def _unlisted(harness: str, name: str) -> Task:
    """Return a task of a known harness that the catalogue does not list; its container has its defaults."""
    harness_row = _harnesses()[harness]
    task = _task(harness, name, harness_row=harness_row, row={})
    return replace(task, own_name="", defaults={}, listed=False)


def _task_in_image(matches: list[Task], harness: str, name: str, image: str) -> Task:
    """Return a task that runs in an image of the user's, which has its own defaults.

    Args:
        matches: The catalogue's tasks with this name.
        harness: The harness that the config names, if any.
        name: The name of the task.
        image: The image.
    """
    for task in matches:
        image_name = _image_name(task.image)
        if len(matches) == 1 or image_name in image:
            if image == task.image:
                return task
            return replace(task, image=image, defaults={})
    return Task(name, harness, "chat", image=image, listed=False)


def _image_name(image: str) -> str:
    """Return the name of an image without its registry and tag."""
    return image.rpartition("/")[2].partition(":")[0]


@cache
def _harnesses() -> Mapping[str, HarnessRow]:
    """Parse the catalogue."""
    document = json.loads(_FILE.read_text(encoding="utf-8"))
    harnesses: dict[str, HarnessRow] = document["harnesses"]
    return harnesses


def _task(harness: str, name: str, harness_row: HarnessRow, row: TaskRow) -> Task:
    """Build a task from its row in the catalogue and the common settings of its harness."""
    routes = read_data("routes.yaml")
    types = row.get("types", harness_row["types"])
    return Task(
        name=name,
        harness=harness,
        endpoint=types[0],
        image=f"{routes['registry']}/{harness_row['image']}:{routes['tag']}",
        own_name=row.get("task", name),
        defaults=_defaults(harness_row, row),
    )


def _defaults(harness_row: HarnessRow, row: TaskRow) -> JsonDict:
    """Return the default parameters of a task: those of its harness, changed by its own."""
    params = copy.deepcopy({**harness_row["params"], **row.get("params", {})})
    extra = copy.deepcopy({**harness_row["extra"], **row.get("extra", {})})
    for key in row.get("without", ()):
        extra.pop(key, None)
    if extra:
        params["extra"] = extra
    return params
