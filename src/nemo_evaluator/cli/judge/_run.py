"""Which benchmark of which run is meant."""

from __future__ import annotations

from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.store.runs import find_run


def bundle_of(run: str, benchmark: str | None = None) -> Bundle:
    """The only finished benchmark of a run (a folder, a bundle or an id), or the one that is named."""
    path = Path(run) if Path(run).exists() else find_run(run).output_dir
    found = [one for one in find_runs(Path(path)) if benchmark in (None, one.name)]
    if len(found) != 1:
        names = ", ".join(sorted(one.name for one in found)) or "none"
        raise UsageError(f"{run} holds {len(found)} finished benchmarks ({names})", hint="choose with --benchmark NAME")
    return found[0]
