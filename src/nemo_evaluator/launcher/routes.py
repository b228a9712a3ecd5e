"""How nel runs a task of the launcher: with lm-eval, in the harness's container, or as a benchmark of its own.

The same name must mean the same measurement. A task of lm-evaluation-harness runs as ``lm-eval://NAME`` if the public
lm-eval has it, which uses lm-eval's own prompts and metrics. Every other task runs in its harness's container. A
built-in benchmark runs if its prompts and graders were shown to be equal, or if the user asks for it (``--native``).
"""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.table import read_data

#: ``own`` is a benchmark or URI of nel that the config names itself.
Kind = Literal["lm-eval", "container", "built-in", "own"]
Preference = Literal["same", "native", "containers"]
_FILE: Final = "routes.yaml"
_LM_EVAL: Final = "lm-evaluation-harness"


@dataclass(frozen=True, slots=True)
class TaskRoute:
    """How nel runs a task.

    Attributes:
        benchmark: The name or URI of the benchmark in nel's config.
        params: Parameters of that benchmark.
        defaults: Default settings of the harness that are not in the catalogue.
        equal: Whether the benchmark is the same measurement; only built-in ones may not be.
    """

    kind: Kind
    benchmark: str
    params: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    equal: bool = True

    @property
    def contained(self) -> bool:
        """Whether the harness runs in its container."""
        return self.kind == "container"


def choose_route(task: Task, preference: Preference = "same") -> TaskRoute:
    """Choose how nel runs a task.

    Args:
        task: The task.
        preference: ``same``: the same measurement as in the launcher; ``native``: a benchmark of nel if there is one;
            ``containers``: the harness's container.
    """
    if not task.image:
        return TaskRoute("own", task.name)
    if preference == "containers":
        return TaskRoute("container", task.container)
    equal_route = _equal_route(task)
    if equal_route is not None:
        return equal_route
    if preference == "native":
        replacement = native_route(task)
        if replacement is not None:
            return replacement
    if _runs_in_lm_eval(task):
        return TaskRoute("lm-eval", f"lm-eval://{task.own_name}")
    return TaskRoute("container", task.container)


def native_route(task: Task) -> TaskRoute | None:
    """Return the benchmark of nel that runs in place of a task with ``--native``; None if there is none."""
    rows: JsonDict = read_data(_FILE)["native"].get(task.harness, {})
    row = rows.get(task.name)
    if row is None:
        return None
    return TaskRoute("built-in", row["benchmark"], params=row.get("params", {}), equal=False)


def _equal_route(task: Task) -> TaskRoute | None:
    """Return the benchmark of nel that was shown to be the same measurement as a task; None if there is none."""
    rows: JsonDict = read_data(_FILE)["equal"].get(task.harness, {})
    row = rows.get(task.name)
    if row is None:
        return None
    return TaskRoute("built-in", row["benchmark"], defaults=row["defaults"])


def needs_of(task: Task) -> tuple[str, ...]:
    """Return what a task needs besides a model: ``judge``, ``sandbox``, ``gated``, ``logprobs``."""
    needs: list[str] = []
    for need, patterns_by_harness in read_data(_FILE)["needs"].items():
        patterns: list[str] = patterns_by_harness.get(task.harness, [])
        if any(fnmatch.fnmatchcase(task.name, pattern) for pattern in patterns):
            needs.append(need)
    return tuple(needs)


def _runs_in_lm_eval(task: Task) -> bool:
    """Return whether the public lm-eval has a task, and nel can run it there."""
    if task.harness != _LM_EVAL or not task.listed:
        return False
    routes = read_data(_FILE)
    excluded = (*routes["not_in_lm_eval"], *routes["runs_code_in_lm_eval"])
    return task.own_name not in excluded
