"""Bundles by benchmark, and those of two sides matched."""

from collections.abc import Iterator
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import SHARD, find_runs


def discover_bundles(path: Path | str) -> dict[str, Bundle]:
    """Runs under a path by benchmark name. Two runs of one name are an error: nobody said which of them counts."""
    found: dict[str, Bundle] = {}
    for run in find_runs(Path(path)):
        other = found.setdefault(run.name, run)
        if other is not run:
            shards = any(SHARD.fullmatch(part) for part in run.path.parts)
            if shards:
                hint = "merge the shards first: nel eval merge"
            else:
                hint = "give the folder of one of them"
            raise UsageError(
                f"{other.path.parent} and {run.path.parent} both hold a run of {run.name!r}",
                hint=hint,
            )
    return found


@dataclass(frozen=True, slots=True)
class Matched:
    """Benchmarks that both sides have, and those of one side only; iterating gives (name, baseline, candidate)."""

    pairs: dict[str, tuple[Bundle, Bundle]]
    only_baseline: list[str]
    only_candidate: list[str]

    def __iter__(self) -> Iterator[tuple[str, Bundle, Bundle]]:
        return ((name, *sides) for name, sides in self.pairs.items())


def match_bundles(
    baseline: dict[str, Bundle], candidate: dict[str, Bundle], *, by_name: bool = False
) -> Matched:
    """Match two sides by benchmark name; unless ``by_name``, one benchmark on each side matches whatever its name."""
    if len(baseline) == len(candidate) == 1 and not by_name:
        (name, one), (_, other) = *baseline.items(), *candidate.items()
        return Matched({name: (one, other)}, [], [])
    shared = [name for name in baseline if name in candidate]
    only: list[list[str]] = []
    for side in (baseline, candidate):
        only.append([name for name in side if name not in shared])
    return Matched({name: (baseline[name], candidate[name]) for name in shared}, only[0], only[1])
