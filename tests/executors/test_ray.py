"""Runs on a real Ray cluster: one queue, one journal, the results of a local run, and nothing lost with a worker."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from executor_bench import Bench
from nel_support import Nel, Serve, Sums, bench, rows

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.processes import descendants, free_port, start_time
from nemo_evaluator.engine.ray_launcher import command_of
from nemo_evaluator.executors.ray_worker import WorkerTask
from nemo_evaluator.launch.status import read_status
from nemo_evaluator.runs.bundle import newest_bundle
from nemo_evaluator.services import RunningService

pytestmark = [pytest.mark.needs("ray"), pytest.mark.serial]
on_ray = pytest.mark.parametrize("on", ["ray"], indirect=True)
ANSWERING = Path(__file__).parents[1] / "services" / "answering_server.py"
# Times, and what was measured of them.
OWN = {"latency_ms", "timing", "time_to_first_token_ms", "queue_ms", "total_ms", "timestamp", "at"}
JUDGED_IN_A_SANDBOX = """
from nemo_evaluator import ScorerInput, benchmark, scorer


def rows():
    return [{"question": f"How much is {n}?", "target": str(n)} for n in range(12)]


@benchmark(name="sums", dataset=rows, prompt="{question}", target_field="target")
@scorer
async def score(sample: ScorerInput) -> dict:
    said = await sample.sandbox.exec(f"echo {sample.target}")
    return {"correct": said.stdout.strip() == sample.target}
"""


def workers() -> set[int]:
    """The processes of workers, on all nodes."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"StepWorker" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue
    return found


def outcomes(folder: Path) -> Counter[int]:
    records = map(json.loads, (folder / "journal.jsonl").read_bytes().splitlines())
    return Counter(one["problem_idx"] for one in records if one["kind"] == "outcome")


def facts(folder: Path) -> Any:
    bundle = newest_bundle(folder)
    assert bundle is not None
    return (
        bundle.document["benchmark"]["scores"]["pass@1"],
        bundle.document["validity"],
        bundle.document["config"]["fingerprints"],
    )


def change(on: Bench, name: str, **parts: Any) -> str:
    """Put other parts into a config."""
    config = json.loads((on.folder / name).read_text())
    (on.folder / name).write_text(json.dumps(config | parts))
    return name


@on_ray
@pytest.mark.parametrize("steps", [2000, pytest.param(20_000, marks=pytest.mark.large)])
def test_a_killed_worker_loses_nothing_and_the_results_are_those_of_a_local_run(
    on: Bench, steps: int
) -> None:
    on.pace = 0.02
    nel, before = Nel(on.folder), workers()
    run = nel.start("eval", "run", on.config(steps), "--no-progress")
    on.until(lambda: on.server.count > steps / 3, 600)
    ours = workers() - before
    assert len(ours) == 3
    os.kill(min(ours), signal.SIGKILL)
    out, errors = run.communicate(timeout=600)
    assert run.returncode == 0, out + errors
    assert "samples go to another" in errors
    assert outcomes(on.folder / "o" / "sums") == Counter(range(steps))
    assert steps <= on.server.count <= steps + 2 * 4
    on.pace = 0.0
    on.cluster = {"type": "local"}
    nel("eval", "run", on.config(steps), "-o", "p", timeout=600)
    assert rows(on.folder / "o" / "sums", OWN) == rows(on.folder / "p" / "sums", OWN)
    assert facts(on.folder / "o" / "sums") == facts(on.folder / "p" / "sums")


@on_ray
def test_three_workers_answer_more_than_one(on: Bench) -> None:
    """Each at most four at once, of a server that takes 50 ms; measured while all are at work."""
    on.pace, rates = 0.05, {}
    for count in (1, 3):
        on.cluster["shards"], asked, steps = count, on.server.count, 400 * count
        run = Nel(on.folder).start("eval", "run", on.config(steps), "-o", f"o{count}")
        seen = []
        for share in (0.4, 0.9):
            on.until(lambda least=asked + share * steps: on.server.count >= least, 600)  # type: ignore[misc]
            seen.append((on.server.count, time.monotonic()))
        (low, began), (high, ended) = seen
        rates[count] = (high - low) / (ended - began)
        run.communicate(timeout=120)
    assert rates[3] >= 1.8 * rates[1], rates


@on_ray
def test_a_lost_node_loses_nothing(on: Bench, ray_address: str) -> None:
    """A fourth node joins and dies, with all of its processes."""
    ray = Path(sys.executable).with_name("ray")
    words = [
        ray,
        "start",
        "--block",
        "--address",
        ray_address,
        "--num-cpus",
        "2",
        "--disable-usage-stats",
    ]
    with (on.folder / "node.log").open("wb") as log:
        node = subprocess.Popen(
            [*words, "--node-ip-address", "127.0.0.1"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        on.until(
            lambda: "--block" in (on.folder / "node.log").read_text() or node.poll() is not None,
            600,
        )
        assert node.poll() is None, (on.folder / "node.log").read_text()[-1500:]
        on.pace, on.cluster["shards"] = 0.1, 8
        run = Nel(on.folder).start("eval", "run", on.config(1500))
        here = lambda: workers() & set(descendants(node.pid))  # noqa: E731
        on.until(lambda: here() and on.server.count > 300, 600)
        os.killpg(node.pid, signal.SIGKILL)
        out, errors = run.communicate(timeout=240)
        assert run.returncode == 0, out + errors
        assert outcomes(on.folder / "o" / "sums") == Counter(range(1500))
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()


@on_ray
def test_ctrl_c_loses_nothing_leaves_no_worker_and_the_rest_is_resumed(on: Bench) -> None:
    on.pace = 0.2
    nel, before = Nel(on.folder), workers()
    words = [str(Path(sys.executable).with_name("nel")), "eval", "run", on.config(300)]
    run = subprocess.Popen(
        words, cwd=on.folder, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    on.until(lambda: on.server.count > 20, 600)
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=120)
    assert run.returncode == 130
    assert on.rows() == on.server.count < 300, "what was asked was waited for"
    on.until(lambda: workers() <= before)
    on.pace = 0.0
    nel("eval", "resume", on.run().run_id, timeout=240)
    assert on.rows() == on.server.count == 300


@on_ray
def test_a_budget_is_shared_to_the_last_request(on: Bench) -> None:
    config = change(on, on.config(300), budget={"requests": 50})
    Nel(on.folder)("eval", "run", config, code=4, timeout=240)
    assert on.server.count == on.rows() == 50


@on_ray
@pytest.mark.needs("bwrap")
def test_a_server_of_the_run_and_sandboxes_of_the_workers(
    on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = on.folder / "packages" / "vllm" / "entrypoints" / "cli" / "main.py"
    module.parent.mkdir(parents=True)
    shutil.copy(ANSWERING, module)
    (on.folder / "judged.py").write_text(JUDGED_IN_A_SANDBOX)
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_port(),
    }
    benchmark = bench("judged.py", max_concurrent=4, sandbox={"type": "local"})
    config = change(on, on.config(1), services={"model": served}, benchmarks=[benchmark])
    nel = Nel(on.folder)
    nel.env |= {"PYTHONPATH": str(on.folder / "packages"), "NOTES": str(on.folder)}
    nel("eval", "run", config, timeout=240)
    assert [row["reward"] for row in rows(on.folder / "o" / "sums")] == [1.0] * 12


@on_ray
def test_what_a_node_lacks_is_said_once(on: Bench) -> None:
    """As where a library of the benchmark is not installed on the nodes."""
    on.cluster["container_env"] = {"ON_A_NODE": "1"}
    config = on.config(300)
    lacks = 'import os\n\nif os.environ.get("ON_A_NODE"):\n    import no_such_library\n'
    file = on.folder / "sums.py"
    file.write_text(lacks + file.read_text())
    said = Nel(on.folder)("eval", "run", config, code=2, timeout=240)
    assert (
        said.stderr.count("no_such_library") <= 2 and "no_such_library" in said.stderr + said.stdout
    )
    assert on.server.count == 0


@on_ray
def test_an_address_where_nothing_answers_is_said_at_once(on: Bench) -> None:
    on.cluster["address"] = f"127.0.0.1:{free_port()}"
    said = Nel(on.folder)("eval", "run", on.config(3), code=2, timeout=60)
    assert "the Ray cluster could not be joined" in said.stderr + said.stdout


def family_of(pid: int) -> dict[int, int]:
    """A process and all below it, each with when it began: numbers are soon given to others."""
    return {one: start_time(one) for one in (pid, *descendants(pid))}


def are_gone(family: dict[int, int]) -> bool:
    return all(start_time(pid) != began for pid, began in family.items() if began)


@pytest.mark.parametrize("on", ["ray"], indirect=True)
def test_a_cluster_of_its_own_is_stopped_and_resumed_like_any_run_and_leaves_nothing(
    on: Bench,
) -> None:
    on.cluster = {"type": "ray", "shards": 2}
    on.pace = 0.2
    nel = Nel(on.folder)
    nel("eval", "run", on.config(600), "--background")
    on.until(lambda: on.server.count > 20, 600)
    run = on.run()
    status = read_status(run)
    assert (status.state, status.executor, status.benchmarks[0].total) == ("running", "ray", 600)
    family = family_of(run.details["pid"])
    (own,) = Path("/tmp").glob(f"nel-ray-{run.details['pid']}-*")
    # Longer than Ray lets a process live after a SIGTERM.
    asked, on.pace = on.server.count, 4.0
    on.until(lambda: on.server.count > asked + 8)
    nel("eval", "stop", run.run_id)
    assert "SIGTERM received" not in (on.folder / "o" / "nel_eval.log").read_text()
    assert read_status(run).state == "stopped" and on.rows() == on.server.count
    on.until(lambda: are_gone(family))
    assert not own.exists()
    asked = on.server.count
    nel("eval", "resume", run.run_id, "--background")
    on.until(lambda: on.server.count > asked + 8, 600)
    pid = on.run().details["pid"]
    family = family_of(pid)
    (own,) = Path("/tmp").glob(f"nel-ray-{pid}-*")
    os.kill(pid, signal.SIGKILL)
    # Agents of Ray would look for the others for most of a minute.
    on.until(lambda: are_gone(family) and not own.exists(), 30)
    on.pace = 0.0
    nel("eval", "resume", run.run_id, timeout=600)
    # Only what the workers had in hand when they were killed is asked again.
    assert on.rows() == 600 and 600 <= on.server.count <= 600 + 2 * 4 * 2


def test_the_older_launcher_runs(tmp_path: Path, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    words = [
        "-b",
        sums(9),
        "-s",
        "2",
        "-n",
        "2",
        "--max-problems",
        "5",
        "--model-url",
        server.url,
        "--model-id",
        "m",
    ]
    command = [
        sys.executable,
        "-m",
        "nemo_evaluator.engine.ray_launcher",
        *words,
        "--system-prompt",
        "Be brief.",
        "-o",
        "r",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(rows(tmp_path / "r" / "sums")) == server.count == 10
    assert server.requests[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_the_older_flags_and_their_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEMO_API_KEY", raising=False)
    words = command_of(["--benchmark", "gsm8k", "--api-key", "sk-1", "--shuffle-seed", "-1"])
    assert "sk-1" not in words and os.environ.pop("NEMO_API_KEY") == "sk-1"
    assert words[:8] == [
        "eval",
        "run",
        "--bench",
        "gsm8k",
        "--repeats",
        "1",
        "-o",
        "./eval_results/ray",
    ]
    assert {"cluster.type=ray", "cluster.shards=4", "benchmarks.0.shuffle_seed=null"} <= set(words)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"cwd": "/no/such/folder"}, "/no/such/folder does not exist on"),
        ({"host": "elsewhere"}, "service 'model' is at http://127.0.0.1:8000/v1"),
    ],
)
def test_a_node_that_cannot_do_it_says_why(
    facts: dict[str, str], said: str, tmp_path: Path
) -> None:
    running = {"model": RunningService("model", "http://127.0.0.1:8000/v1")}
    words: dict[str, Any] = {
        "raw": {},
        "variables": {},
        "benchmark": "b",
        "running": running,
        "keys": {},
        "run_id": "r",
    }
    task = WorkerTask(**(words | {"output_dir": "o", "cwd": str(tmp_path), "folder": None} | facts))
    with pytest.raises(UsageError, match=said):
        task.check_node()
