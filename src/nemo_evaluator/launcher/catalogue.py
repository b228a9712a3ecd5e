"""The launcher's task names (``data/tasks.yaml``): harness, endpoint, and the benchmark that takes their place."""

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
    """One task. ``nel`` is the benchmark or URI that takes its place; None: only the container runs it."""

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
        """``harness.task``."""
        return f"{self.harness}.{self.name}" if self.harness else self.name

    @property
    def container(self) -> str:
        """The URI of the harness's own container."""
        return f"container://{self.image}#{self.name}"


@cache
def catalogue() -> tuple[Task, ...]:
    """All tasks that are listed; families under the name that has a ``*``."""
    harnesses = read_data(_FILE)["harnesses"].items()
    return tuple(
        _task(harness, name, row)
        for harness, own in harnesses
        for name, row in own["tasks"].items()
    )


def find_task(name: str, container: str | None = None) -> Task:
    """The task of a name, with or without its harness. Raises UsageError with suggestions. A task that is not listed
    runs in the container that is named; a benchmark or URI of ours is itself."""
    name = read_data(_FILE)["aliases"].get(name, name)
    harness, dot, short = name.rpartition(".")
    found = _fitting(harness, short)
    if "://" in name or (not dot and not container and not found and name in builtin_names()):
        return Task(name, "", "chat", image="", nel=name)
    if container:
        if found:
            one = found[0]
        else:
            one = Task(short, harness, "chat", image=container, listed=False)
        return replace(one, image=container)
    names = read_data(_FILE)["ambiguous"].get(name) or [one.full_name for one in found]
    if len(names) > 1:
        raise UsageError(
            f"the task name {name!r} is ambiguous", hint=f"write one of: {', '.join(names)}"
        )
    if found:
        return found[0]
    if harness in read_data(_FILE)["harnesses"]:
        return replace(_task(harness, short, {}), listed=False)
    known = [word for one in catalogue() for word in (one.full_name, one.name)]
    hint = did_you_mean(name, dict.fromkeys(known), "`nel ls tasks` lists them")
    raise UsageError(f"no task is called {name!r}", hint=f"{hint}; or give the task a container")


def _fitting(harness: str, short: str) -> list[Task]:
    """Tasks of that name, else members of a family; a family that takes every name only with its harness."""
    mine = [one for one in catalogue() if harness in ("", one.harness)]
    exact = [one for one in mine if one.name == short]
    if exact:
        return exact
    fitting: dict[str, Task] = {}
    for one in mine:
        if one.name != "*" or harness:
            star = re.search(r"[*?]", one.name)
        else:
            star = None
        if star and fnmatch.fnmatchcase(short, one.name) and one.harness not in fitting:
            part = short[star.start() :]
            params: dict[str, list[str | Any]] = {}
            for key, value in one.params.items():
                params[key] = [part if item == "*" else item for item in value]
            fitting[one.harness] = replace(one, name=short, params=params)
    return list(fitting.values())


def _task(harness: str, name: str, row: JsonDict) -> Task:
    file = read_data(_FILE)
    own = read_data(_FILE)["harnesses"][harness]
    return Task(
        name=name,
        harness=harness,
        endpoint=row.get("type", own["type"]),
        image=f"{file['registry']}/{own.get('image', harness)}:{file['tag']}",
        nel=row.get("nel"),
        params=row.get("params", {}),
        defaults={**own.get("defaults", {}), **row.get("defaults", {})},
        needs=tuple(need for need in _NEEDS if row.get(need)),
    )
