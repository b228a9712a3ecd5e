"""The runs of a folder by benchmark, and the matching of two sides."""

from collections.abc import Iterator
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.values import dataclass
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import SHARD, find_runs


def discover_bundles(path: Path | str) -> dict[str, Bundle]:
    """The runs under a path, by benchmark name.

    Raises:
        UsageError: Two runs have the same name, so that it is unclear which one counts.
    """
    run_of_benchmark: dict[str, Bundle] = {}
    for run in find_runs(Path(path)):
        earlier_run = run_of_benchmark.setdefault(run.name, run)
        if earlier_run is not run:
            in_shards = any(SHARD.fullmatch(part) for part in run.path.parts)
            if in_shards:
                hint = "merge the shards first: nel eval merge"
            else:
                hint = "give the folder of one of them"
            raise UsageError(
                f"{earlier_run.path.parent} and {run.path.parent} both hold a run of {run.name!r}",
                hint=hint,
            )
    return run_of_benchmark


@dataclass(frozen=True, slots=True)
class Matched:
    """Benchmarks that both sides have, and those that only one has; iterating gives (name, baseline, candidate)."""

    pairs: dict[str, tuple[Bundle, Bundle]]
    only_baseline: list[str]
    only_candidate: list[str]

    def __iter__(self) -> Iterator[tuple[str, Bundle, Bundle]]:
        return ((name, *sides) for name, sides in self.pairs.items())


def match_bundles(
    baseline: dict[str, Bundle], candidate: dict[str, Bundle], *, by_name: bool = False
) -> Matched:
    """Match two sides by benchmark name.

    Args:
        baseline: The baseline's runs by benchmark name.
        candidate: The candidate's runs by benchmark name.
        by_name: Match by name even if each side has only one benchmark. Otherwise these two match under any name.
    """
    if len(baseline) == len(candidate) == 1 and not by_name:
        (name, baseline_run), (_, candidate_run) = *baseline.items(), *candidate.items()
        return Matched({name: (baseline_run, candidate_run)}, [], [])
    shared = [name for name in baseline if name in candidate]
    unmatched: list[list[str]] = []
    for side in (baseline, candidate):
        unmatched.append([name for name in side if name not in shared])
    return Matched(
        {name: (baseline[name], candidate[name]) for name in shared}, unmatched[0], unmatched[1]
    )
