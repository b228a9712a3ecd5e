"""The steps of an agent as trajectories tell them: turns without tokens, missing metrics, missing fields."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.reports._fields import FIELDS


def agent_steps(row: JsonDict) -> list[JsonDict]:
    """What the model said, turn by turn."""
    documents = row.get("trajectory") or []
    return [step for step in documents[0].get("steps") or [] if step.get("source") == "agent"] if documents else []


@dataclass(slots=True)
class Presence:
    """How often each field of a set is there, and how often it is there and empty."""

    fields: tuple[str, ...]
    total: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)

    def add(self, values: Mapping[str, Any], *, may_be_empty: str = "") -> None:
        """Count one holder of the fields."""
        self.total += 1
        for name in self.fields:
            value = values.get(name)
            if value is None:
                self.absent[name] += 1
            elif value in ("", [], {}) and name != may_be_empty:
                self.empty[name] += 1

    def missing(self) -> list[JsonDict]:
        """The fields that are not always there and filled."""
        return [
            {"field": name, "presence": f"{self.total - self.absent[name]}/{self.total}"}
            | ({"empty": self.empty[name]} if self.empty[name] else {})
            for name in self.fields
            if self.absent[name] or self.empty[name]
        ]


@dataclass(slots=True)
class StepQuality:
    """Tokens and fields of all turns. What is called ``problems_…`` counts problems, not their repeats."""

    tokens: int = 0
    zero_turns: int = 0
    missed: int = 0
    problems: set[int] = field(default_factory=set)
    with_zero: set[int] = field(default_factory=set)
    with_missed: set[int] = field(default_factory=set)
    # Problems with a turn that did count: the others are zero from one end to the other.
    counting: set[int] = field(default_factory=set)
    speaking: set[int] = field(default_factory=set)
    trials: Presence = field(default_factory=lambda: Presence(FIELDS["trial"]))
    turns: Presence = field(default_factory=lambda: Presence(FIELDS["step"]))

    def add(self, row: JsonDict) -> int:
        """Count a row; returns the tokens of its turns."""
        problem = row.get("problem_idx", -1)
        self.problems.add(problem)
        self.trials.add(row)
        total = before = 0
        for step in agent_steps(row):
            self.speaking.add(problem)
            metrics = step.get("metrics") or {}
            # A turn that calls tools need not say anything.
            silent = "message" if step.get("tool_calls") else ""
            self.turns.add({**(metrics.get("extra") or {}), **metrics, **step}, may_be_empty=silent)
            prompt, completion = metrics.get("prompt_tokens"), metrics.get("completion_tokens")
            if prompt is None or completion is None:
                self.missed += 1
                self.with_missed.add(problem)
            elif completion == 0 and (prompt == before or prompt == 0):
                # Nothing was said, and the conversation did not grow.
                self.zero_turns += 1
                self.with_zero.add(problem)
            else:
                self.counting.add(problem)
            before = prompt or 0
            total += (prompt or 0) + (completion or 0)
        self.tokens += total
        return total

    def quality(self) -> JsonDict:
        """The counters of ``quality``."""
        dirty = self.with_zero | self.with_missed
        return {
            "clean_problems": len(self.problems - dirty),
            "dirty_problems": len(dirty),
            "fully_zero_problems": len((self.with_zero & self.speaking) - self.counting - self.with_missed),
            "problems_with_zero_token_turns": len(self.with_zero),
            "problems_with_missed_metrics": len(self.with_missed),
            "total_zero_token_turns": self.zero_turns,
            "total_missed_metrics": self.missed,
        }
