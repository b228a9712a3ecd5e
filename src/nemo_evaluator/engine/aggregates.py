"""Scores over all verdicts of a run that are no mean of rewards: F1, share attempted, agreement of judges."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_evaluator.core.errors import boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.core.types import JsonDict

Summary = Callable[[Iterable[JsonDict]], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Reads the scoring details of the scored rows once for each summary."""

    summaries: tuple[Summary, ...]

    @classmethod
    def of(cls, *owners: object) -> Aggregates | None:
        """The ``summary`` functions of an environment and a verifier, if they have any."""
        found = tuple(summary for owner in owners if (summary := getattr(owner, "summary", None)) is not None)
        return cls(found) if found else None

    def __call__(self, results: Path) -> JsonDict:
        """``{name: {value}}``, as the bundle's scores have it."""
        scores: JsonDict = {}
        for summary in self.summaries:
            with boundary(Cause.SCORER):
                values = summary(_details(results))
            scores |= {name: {"value": round(float(value), 6)} for name, value in values.items()}
        return scores


def _details(results: Path) -> Iterator[JsonDict]:
    for row in iter_jsonl(results):
        if row["status"] == "scored":
            yield row["scoring_details"]
