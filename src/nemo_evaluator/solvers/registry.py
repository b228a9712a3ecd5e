"""The kinds of solver by their YAML word. Third parties add theirs by entry point, or by ``type: custom``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nemo_evaluator.core.registry import Registry

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


@dataclass(frozen=True, slots=True)
class SolverContext:
    """What a solver may use: clients of the config's services, and their addresses."""

    clients: Mapping[str, Client]
    base_urls: Mapping[str, str] = field(default_factory=dict)


Factory: TypeAlias = Callable[[Any, SolverContext], object]

SOLVERS: Final[Registry[Factory]] = Registry("solver type", group="nemo_evaluator.solvers")
SOLVERS.add("simple", "nemo_evaluator.solvers.simple:build")
SOLVERS.add("tool_calling", "nemo_evaluator.solvers.tool_calling:build")
SOLVERS.add("oracle", "nemo_evaluator.solvers.oracle:build")
SOLVERS.add("custom", "nemo_evaluator.solvers.custom:build")


def build_solver(config: Any, context: SolverContext) -> object:
    """The solver that a config describes."""
    return SOLVERS.get(config.type)(config, context)
