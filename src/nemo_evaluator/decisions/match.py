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
        earlier_run = run_of_benchmark.get(run.name)
        if earlier_run is not None:
            raise _same_benchmark(earlier_run, run)
        run_of_benchmark[run.name] = run
    return run_of_benchmark


def _same_benchmark(earlier_run: Bundle, run: Bundle) -> UsageError:
    """The error about two runs of one benchmark."""
    in_shards = any(SHARD.fullmatch(part) for part in run.path.parts)
    if in_shards:
        hint = "merge the shards first: nel eval merge"
    else:
        hint = "give the folder of one of them"
    folders = f"{earlier_run.path.parent} and {run.path.parent}"
    return UsageError(f"{folders} both hold a run of {run.name!r}", hint=hint)


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
    has_one_each = len(baseline) == len(candidate) == 1
    if has_one_each and not by_name:
        [name] = baseline
        [candidate_run] = candidate.values()
        only_pair = {name: (baseline[name], candidate_run)}
        return Matched(only_pair, only_baseline=[], only_candidate=[])
    pairs: dict[str, tuple[Bundle, Bundle]] = {}
    for name, baseline_run in baseline.items():
        if name in candidate:
            pairs[name] = (baseline_run, candidate[name])
    return Matched(
        pairs=pairs,
        only_baseline=[name for name in baseline if name not in pairs],
        only_candidate=[name for name in candidate if name not in pairs],
    )
