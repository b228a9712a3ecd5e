"""The clock of the machine goes back at times: only stamps and ages come from it, waits and limits never."""

from __future__ import annotations

import re
from pathlib import Path

import nemo_evaluator

_SOURCE = Path(nemo_evaluator.__file__).parent
_WALL_CLOCK = re.compile(r"\btime\.time(?:_ns)?\(|\bdatetime\.(?:now|utcnow|today)\(")
# Stamps in records and names, ages that are shown and never below 0, and dates that servers and caches give.
STAMPS_AND_AGES = {
    *("adapters/cache_store.py", "adapters/traffic.py", "cli/launcher.py", "cli/runs.py"),
    *("cli/stored.py", "config/snapshot.py", "engine/evaluation.py", "engine/progress.py"),
    *("engine/session.py", "executors/slurm_jobs/host.py", "exporters/mlflow.py", "launch/job.py"),
    *("launch/status.py", "models/batch/ledger.py", "models/faults.py", "runs/labels.py"),
    *("sandbox/_ecs_server.py", "sandbox/_reaper.py", "sandbox/docker_provider.py"),
    *("sandbox/inventory.py", "sandbox/jail/keeper.py", "store/checkpoint.py", "store/layout.py"),
    *("store/lock.py", "store/records.py", "store/run_registry.py", "testing/wire.py"),
    "view/library.py",
}


def _users() -> list[str]:
    users = []
    for path in sorted(_SOURCE.rglob("*.py")):
        if _WALL_CLOCK.search(path.read_text(encoding="utf-8")):
            users.append(path.relative_to(_SOURCE).as_posix())
    return users


def test_waits_and_limits_do_not_look_at_the_wall_clock() -> None:
    assert set(_users()) - STAMPS_AND_AGES == set()
