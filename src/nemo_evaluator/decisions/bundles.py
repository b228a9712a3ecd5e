"""Which runs a path means: the newest bundle of each task folder, earlier runs left alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.metrics import Spending, spending_of
from nemo_evaluator.store.layout import PREVIOUS
from nemo_evaluator.store.sums import verified

_SHARD: Final = re.compile(r"shard_\d+")
_STAMPED: Final = re.compile(r"eval-(?:(?P<stamp>\d{8}T\d{6}Z)-)?(?P<name>.+)\.json")


@dataclass(frozen=True, slots=True)
class Run:
    """One finished benchmark: its bundle and where its rows are."""

    path: Path
    bundle: JsonDict

    @property
    def benchmark(self) -> JsonDict:
        """The part of the bundle with the scores."""
        found = self.bundle.get("benchmark")
        return found if isinstance(found, dict) else {}

    @property
    def name(self) -> str:
        """The benchmark's name."""
        return str(self.benchmark.get("name") or self.config.get("benchmark") or self.path.parent.name)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return str(self.bundle.get("run_id") or self.path.stem)

    @property
    def config(self) -> JsonDict:
        """What was run."""
        found = self.bundle.get("config")
        return found if isinstance(found, dict) else {}

    @property
    def results(self) -> Path:
        """The rows beside the bundle."""
        return self.path.parent / "results.jsonl"

    @property
    def spending(self) -> Spending:
        """How the error of its intervals is spent: a rule that did not stop the run could have done so."""
        return spending_of(self.bundle.get("stopped"))

    @property
    def stopped(self) -> str:
        """Why the run ended before its plan did; empty when it did not."""
        stopped = self.bundle.get("stopped") or {}
        return str(stopped.get("reason") or stopped["kind"]) if stopped.get("kind") else ""

    @property
    def invalid(self) -> list[str]:
        """Why the run itself says that it is not valid; empty when it does not."""
        validity = self.bundle.get("validity") or {}
        if validity.get("status") != "INVALID":
            return [f"the run failed: {self.bundle['error']}"] if self.bundle.get("error") else []
        return [str(reason) for reason in validity.get("reasons") or ["the run is marked INVALID"]]


def load_run(path: Path) -> Run:
    """The run of a bundle file."""
    try:
        bundle: Any = read_json(verified(path))
    except (OSError, orjson.JSONDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}", hint="give an eval-*.json bundle or its folder") from error
    parts = ("config", "benchmark", "validity", "stopped")
    if not isinstance(bundle, dict) or not all(isinstance(bundle.get(part) or {}, dict) for part in parts):
        raise UsageError(f"{path} is not a bundle", hint="a bundle is the eval-*.json file of a task folder")
    return Run(path, bundle)


def find_runs(path: Path) -> list[Run]:
    """All runs under a path: a bundle file, a task folder, or any folder above task folders.

    Of several bundles of one benchmark in a folder the newest counts; ``previous/`` and merged shards are left out.
    Bundles that cannot be read are an error: a gate must not overlook a benchmark.
    """
    if path.is_file():
        return [load_run(path)]
    if not path.is_dir():
        raise UsageError(f"{path} does not exist", hint="`nel eval runs` lists runs and their folders")
    newest: dict[tuple[Path, str], tuple[str, Path]] = {}
    for found in sorted(path.rglob("eval-*.json")):
        match = _STAMPED.fullmatch(found.name)
        if match is None or not found.is_file() or PREVIOUS in found.relative_to(path).parts:
            continue
        key, entry = (found.parent, match["name"]), (match["stamp"] or "", found)
        newest[key] = max(newest.get(key, entry), entry)
    files = [found for _, found in newest.values()]
    whole = {_outside_shards(file.parent, path) for file in files if not _in_shard(file.parent, path)}
    return [
        load_run(file)
        for file in sorted(files)
        if not _in_shard(file.parent, path) or _outside_shards(file.parent, path) not in whole
    ]


def _in_shard(folder: Path, root: Path) -> bool:
    return any(_SHARD.fullmatch(part) for part in folder.relative_to(root).parts)


def _outside_shards(folder: Path, root: Path) -> tuple[str, ...]:
    return tuple(part for part in folder.relative_to(root).parts if not _SHARD.fullmatch(part))


def discover_bundles(path: Path | str) -> dict[str, Run]:
    """Runs under a path by benchmark name. Two runs of one name are an error: nobody said which of them counts."""
    found: dict[str, Run] = {}
    for run in find_runs(Path(path)):
        other = found.setdefault(run.name, run)
        if other is not run:
            shards = any(_SHARD.fullmatch(part) for part in run.path.parts)
            raise UsageError(
                f"{other.path.parent} and {run.path.parent} both hold a run of {run.name!r}",
                hint="merge the shards first: nel eval merge" if shards else "give the folder of one of them",
            )
    return found


@dataclass(frozen=True, slots=True)
class Matched:
    """Benchmarks that both sides have, and those of one side only; iterating gives (name, baseline, candidate)."""

    pairs: dict[str, tuple[Run, Run]]
    only_baseline: list[str]
    only_candidate: list[str]

    def __iter__(self) -> Iterator[tuple[str, Run, Run]]:
        return ((name, *sides) for name, sides in self.pairs.items())


def match_bundles(baseline: dict[str, Run], candidate: dict[str, Run], *, by_name: bool = False) -> Matched:
    """Match two sides by benchmark name; unless ``by_name``, one benchmark on each side matches whatever its name."""
    if len(baseline) == len(candidate) == 1 and not by_name:
        (name, one), (_, other) = *baseline.items(), *candidate.items()
        return Matched({name: (one, other)}, [], [])
    shared = [name for name in baseline if name in candidate]
    return Matched(
        {name: (baseline[name], candidate[name]) for name in shared},
        _without(baseline, shared),
        _without(candidate, shared),
    )


def _without(names: Iterable[str], shared: list[str]) -> list[str]:
    return [name for name in names if name not in shared]
