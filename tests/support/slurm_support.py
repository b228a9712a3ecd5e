"""For tests on a real SLURM cluster: configs for it, and a look at what became of them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Sums, bench

POOL: dict[str, Any] = {"partition": "batch", "sbatch_extra_flags": {"mem": "900M"}}
# The embedded model, served by a step of the job.
MODEL: dict[str, Any] = {
    "type": "llama_cpp",
    "model": "smollm2-135m",
    "threads": 1,
    "slots": 2,
    "context_size": 512,
    "generation": {"max_tokens": 16, "temperature": 0.0, "stop": [" "]},
}
# The pace of a run whose model is a real one: scores take the seconds that stand in a file, until it is gone.
PACED = """
import asyncio
import time
from pathlib import Path
from nemo_evaluator import ScorerInput, benchmark, scorer

def rows():
    return [{{"question": f"How much is {{n}} + {{n}}?", "target": str(2 * n)}} for n in range({size})]

@benchmark(name="sums", dataset=rows, prompt="{{question}}", target_field="target")
@scorer
async def score(sample: ScorerInput) -> dict:
    pace = Path({pace!r})
    until = time.monotonic() + (float(pace.read_text()) if pace.exists() else 0)
    while pace.exists() and time.monotonic() < until:
        await asyncio.sleep(0.1)
    # Of a model this small: whether an answer has an even number of letters is as good as any other question.
    return {{"correct": len(sample.response) % 2 == 0}}
"""


class Cluster:
    """Configs for the cluster, and a look at what became of them."""

    def __init__(self, nel: Nel, sums: Sums) -> None:
        self.nel, self._sums = nel, sums
        nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "SHELL_KEY": "sk-shell-0123456789"}

    @property
    def pace(self) -> Path:
        """The file that says how many seconds each score of a run with the embedded model takes."""
        return self.nel.folder / "pace"

    def embedded(self, steps: int, **cluster: Any) -> str:
        """A config whose model is served in the job."""
        name = self.config(steps, {"model": MODEL}, **cluster)
        (self.nel.folder / "sums.py").write_text(PACED.format(size=steps, pace=str(self.pace)))
        return name

    def asked(self, folder: str = "o") -> int:
        """Requests that servers of the model took, but for the one with which each shows that it is ready."""
        text = "".join(
            path.read_text()
            for path in (self.nel.folder / folder).rglob("logs/server-*-model*.log")
        )
        return text.count("processing task") - self.log(folder, whole=True).count("model ready at")

    def config(
        self, steps: int, services: dict[str, Any], *, solver: str = "model", **cluster: Any
    ) -> str:
        block = {"type": "slurm", "walltime": "00:10:00", "node_pools": {"main": POOL}} | cluster
        one = bench(self._sums(steps), max_concurrent=2)
        one["solver"] = {"type": "simple", "service": solver}
        output = {"dir": "o", "progress_interval": 0.5}
        return self.nel.config(
            "c.json", cluster=block, services=services, benchmarks=[one], output=output
        )

    def status(self, folder: str = "o") -> dict[str, Any]:
        said = self.nel("eval", "status", "-o", folder, "--json").stdout
        return dict(json.loads(said))

    def until(
        self, condition: Callable[[dict[str, Any]], object], folder: str = "o", seconds: float = 300
    ) -> Any:
        deadline = time.monotonic() + seconds
        while not condition(state := self.status(folder)):
            assert time.monotonic() < deadline, (state, self.log(folder))
            time.sleep(0.5)
        return state

    def over(self, folder: str = "o") -> dict[str, Any]:
        return dict(self.until(lambda state: not state["running"], folder))

    def log(self, folder: str = "o", *, whole: bool = False) -> str:
        logs = [*(self.nel.folder / folder).rglob("nel_eval.log")]
        logs += [] if whole else (self.nel.folder / folder).rglob("logs/*.log")
        return "\n".join(
            f"== {path}\n{path.read_text(errors='replace')[0 if whole else -3000 :]}"
            for path in logs
        )

    def chain(self, folder: str = "o") -> list[str]:
        return (self.nel.folder / folder / ".nel_job_chain").read_text().split()


def squeue(*words: str) -> str:
    done = subprocess.run(
        ["squeue", "-h", *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def jobs_of(on: Cluster) -> list[str]:
    """Jobs of this test's runs that wait or run."""
    listed = squeue("-t", "pending,running,completing", "-o", "%A %r %Z").splitlines()
    return [
        line
        for line in listed
        if str(on.nel.folder) in line and "DependencyNeverSatisfied" not in line
    ]


def kill_script(job: str) -> None:
    """SIGKILL to the script of a job, as the kernel sends it when memory runs out."""
    scripts = [
        line.split()[0] for line in _processes() if f"job{int(job):05d}/slurm_script" in line
    ]
    assert scripts
    for pid in scripts:
        os.kill(int(pid), signal.SIGKILL)


@contextmanager
def lost_node(node: str, job: str) -> Iterator[None]:
    """A machine that went away: its daemon and all that ran there for the job are killed; afterwards it comes back."""
    run = Path(os.environ["SLURM_CONF"]).parent
    os.kill(int((run / f"slurmd-{node}.pid").read_text()), signal.SIGKILL)
    mark = f"\0SLURM_JOB_ID={job}\0".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            named = (process / "cmdline").read_bytes().startswith(f"slurmstepd: [{job}.".encode())
            if named or mark in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)
    try:
        yield
    finally:
        subprocess.run(
            ["slurmd", "-N", node],
            env=os.environ | {"PATH": f"{run}/bin:{os.environ['PATH']}"},
            check=True,
        )
        subprocess.run(
            ["scontrol", "update", f"nodename={node}", "state=resume"],
            capture_output=True,
            timeout=60,
        )


def processes_of(folder: Path) -> list[str]:
    """Command lines that name a folder, but for our own."""
    return [
        line for line in _processes() if str(folder) in line and line.split()[0] != str(os.getpid())
    ]


def _processes() -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        yield f"{process.name} {line}"


@pytest.fixture
def on(nel: Nel, sums: Sums) -> Iterator[Cluster]:
    made = Cluster(nel, sums)
    yield made
    for path in nel.folder.rglob(".nel_job_chain"):
        subprocess.run(["scancel", *path.read_text().split()], capture_output=True, timeout=60)
