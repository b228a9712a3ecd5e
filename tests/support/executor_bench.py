"""For tests of executors: one run of a small benchmark, of any size and pace, on one executor."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nel_support import Serve, Sums, api, bench, rows

from nemo_evaluator.core.files import read_json
from nemo_evaluator.executors.base import Executor, executor_of
from nemo_evaluator.executors.request import RunRequest
from nemo_evaluator.launch.start import start
from nemo_evaluator.store.run_registry import RunMeta, find_run
from nemo_evaluator.testing import Say

# What a cluster needs besides its word; tests of the contract end runs themselves, so nothing is to follow them.
CLUSTERS: dict[str, dict[str, Any]] = {
    "slurm": {
        "walltime": "00:10:00",
        "auto_resume": False,
        "node_pools": {"main": {"partition": "batch", "sbatch_extra_flags": {"mem": "800M"}}},
    }
}


class Bench:
    """A config on one executor, and a server whose pace can be changed."""

    def __init__(
        self,
        word: str,
        folder: Path,
        serve: Serve,
        sums: Sums,
        cluster: dict[str, Any] | None = None,
    ) -> None:
        self.word, self.folder, self._sums = word, folder, sums
        self.cluster = {"type": word} | CLUSTERS.get(word, {}) | (cluster or {})
        self.executor: Executor = executor_of(word)
        # What may be asked and not yet written: of three workers, what each has in hand.
        self.in_flight = 2 * 4 * 3 if word == "ray" else 4
        self.pace = 0.0
        # Questions that hold this text are refused.
        self.refused = "\0"
        self.server = serve(self._answer)

    def _answer(self, seen: Any) -> Say:
        return (
            Say(status=400) if self.refused in json.dumps(seen.body) else Say("6", delay=self.pace)
        )

    def config(self, steps: int, name: str = "c.json", **output: Any) -> str:
        parts = {
            "cluster": self.cluster,
            "services": {"model": api(self.server.url, price={"input": 1.0, "output": 1.0})},
            "benchmarks": [bench(self._sums(steps), max_concurrent=4)],
            "output": {"dir": "o", "progress_interval": 0.2} | output,
        }
        (self.folder / name).write_text(json.dumps(parts))
        return name

    def start(self, steps: int = 6, **flags: Any) -> int:
        return self.start_file(self.config(steps), **flags)

    def start_file(self, name: str, **flags: Any) -> int:
        return start(RunRequest(config_file=name, command=("eval", "run", name), **flags))

    def run(self, folder: str = "o") -> RunMeta:
        return find_run(output_dir=self.folder / folder)

    def rows(self, folder: str = "o") -> int:
        return len(rows(self.folder / folder / "sums"))

    def until(self, condition: Callable[[], object], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.folder / "o" / "nel_eval.log").read_text()
            time.sleep(0.02)

    def until_over(self, folder: str = "o") -> str:
        self.until(lambda: not self.executor.status(self.run(folder)).alive)
        return self.executor.status(self.run(folder)).state

    def kill(self) -> None:
        """What a crash of the machine or of the run is like."""
        self.until(lambda: (self.folder / "o" / "nel.lock").exists())
        if self.word == "docker":
            container = self.run().details["container_id"]
            subprocess.run(["docker", "kill", container], check=True, capture_output=True)
        else:
            os.kill(read_json(self.folder / "o" / "nel.lock")["pid"], signal.SIGKILL)
        self.until_over()
