"""What the fields outside of the tasks are translated for: one model server or endpoint, and the run around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher._values import VIA
from nemo_evaluator.launcher.compose import group_defaults
from nemo_evaluator.launcher.table import Draft, Rule, walk

TYPES: Final = {
    "none": "api",
    "vllm": "vllm",
    "vllm_ray": "vllm",
    "sglang": "sglang",
    "nim": "nim",
    "trtllm": "trt_llm",
    "generic": "docker_model",
}


@dataclass(slots=True)
class Head:
    """One model server (or endpoint), and the run around it. ``service`` and ``pool`` are its names in our config."""

    draft: Draft
    execution: JsonDict
    deployment: JsonDict
    config: JsonDict
    service: str = "model"
    pool: str = "gpu"
    # Of the evaluator, and of containers that evaluate.
    variables: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, str] = field(default_factory=dict)
    dry: bool = False
    handlers: Mapping[str, Handler] = field(default_factory=dict)

    @property
    def slurm(self) -> bool:
        """Whether jobs are submitted."""
        return self.execution.get("type") == "slurm"

    @property
    def kind(self) -> str:
        """The word of the deployment."""
        return str(self.deployment.get("type") or "none")

    @property
    def own_command(self) -> str | None:
        """A command that takes the place of the one that follows from the fields."""
        command = self.deployment.get("command") or self.deployment.get("command_template")
        return str(command) if command and command != self.deployment.get("base_command") else None

    @property
    def type(self) -> str:
        """The type of our service."""
        return "docker_model" if self.own_command else TYPES.get(self.kind, self.kind)

    def put(self, name: str, setting: str, value: Any) -> None:
        """Set something of the server; where none is started, that is harmless."""
        if self.kind == "none":
            self.draft.say(name, "warned", "no server is started (deployment: none)")
        else:
            self.draft.put(name, f"services.{self.service}.{setting}", value)

    def apply(self, config: JsonDict, shown: str = "") -> None:
        """Translate the fields of a config by the table; ``shown`` is where they stand when that is elsewhere."""
        defaults = {"execution": self._defaults("execution"), "deployment": group_defaults("deployment", self.kind)}

        def apply(name: str, row: str, rule: Rule, value: Any) -> None:
            place = f"{shown}.{name.partition('.')[2]}" if shown else name
            if rule.by is not None:
                self.handlers[rule.by](self, place, value)
            elif rule.to is not None:
                self._put(place, rule, value)
            else:
                group, _, key = name.partition(".")
                if rule.needs_nothing(value, defaults.get(group, {}).get(key)):
                    self.draft.say(place, "translated", "needs nothing")
                else:
                    self.draft.say(place, "warned" if rule.warn else "refused", str(rule.warn or rule.refuse))

        walk(config, "head", apply, lambda name, why: self.draft.say(name, "refused", why))

    def _put(self, name: str, rule: Rule, value: Any) -> None:
        target = str(rule.to)
        if value is None or value == {}:
            self.draft.say(name, "translated", "needs nothing")
        elif target.startswith("services.model."):
            self.put(name, target.removeprefix("services.model."), value)
        elif target.startswith("cluster.") and not self.slurm:
            self.draft.say(name, "warned", "it is of SLURM, and the run is local")
        else:
            self.draft.put(name, target, VIA[rule.via](value) if rule.via else value)

    def _defaults(self, group: str) -> JsonDict:
        return group_defaults(group, "slurm/default" if self.slurm else "local")


Handler = Callable[[Head, str, Any], None]
