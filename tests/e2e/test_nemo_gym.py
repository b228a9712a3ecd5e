"""The real NeMo Gym: its servers judge for ``gym://``, its agent answers for us, and ``nel serve`` judges for it."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, api, rows

from nemo_evaluator.core.processes import free_port

pytestmark = [pytest.mark.needs("nemo_gym", "mirror"), pytest.mark.large]
SERVERS = Path(__file__).parents[1] / "support" / "nemo_gym_servers.py"


@contextmanager
def gym(python: Path, folder: Path, *words: str) -> Iterator[int]:
    """Gym's servers; the first of their ports."""
    port = free_port()
    log = folder / "gym.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [python, SERVERS, str(port), *words], stdout=file, stderr=file, cwd=folder
        )
    try:
        deadline = time.monotonic() + 240
        while True:
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-3000:]
            try:
                urllib.request.urlopen(
                    f"http://127.0.0.1:{port + 2}/openapi.json", timeout=5
                ).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(letters: dict[str, str]) -> Any:
    """A model that knows some answers."""

    def say(seen: Any) -> str:
        asked = str(seen.body["messages"][-1]["content"])
        return f"So: \\boxed{{{next((letter for part, letter in letters.items() if part in asked), 'A')}}}"

    return say


def test_gym_judges_and_its_agent_answers(
    nel: Nel, serve: Serve, nemo_gym_python: Path, mirror_dir: Path
) -> None:
    server = serve(answers({"cystic fibrosis": "B"}))
    data = mirror_dir / "gym_examples" / "mcqa.jsonl"
    with gym(nemo_gym_python, nel.folder, server.url, "m") as port:
        delegated = {"type": "gym_delegation", "service": "model", "gym_service": "gym"}
        solvers: dict[str, Any] = {
            "simple": {"type": "simple", "service": "model"},
            "trusted": {**delegated, "gym_agent": "mcqa_simple_agent", "trust_reward": True},
            "verified": delegated,
        }
        name = f"gym://127.0.0.1:{port + 1}?protocol=native&data={data}"
        config = nel.config(
            "c.yaml",
            services={
                "model": api(server.url),
                "gym": {"type": "gym", "url": f"http://127.0.0.1:{port}"},
            },
            benchmarks=[
                {"name": name, "id": key, "solver": solver} for key, solver in solvers.items()
            ],
            output={"dir": "out"},
        )
        nel("eval", "run", config, timeout=300)
    got = {key: rows(nel.folder / "out" / key) for key in solvers}
    known = ("A", "B")
    expected = [
        float(row["expected_answer"] == known["cystic fibrosis" in row["prompt"]])
        for row in got["simple"]
    ]
    assert 1.0 in expected and 0.0 in expected
    for key, found in got.items():
        assert [row["reward"] for row in found] == expected, key
        assert all(row["tokens"] for row in found), key


def test_gyms_agent_asks_nel_serve_for_the_verdict(
    nel: Nel, serve: Serve, nemo_gym_python: Path, sums: Any
) -> None:
    server = serve(
        lambda seen: str(2 * int(str(seen.body["messages"][-1]["content"]).split()[3]) // 3 * 3)
    )
    file = sums(4)
    nel("serve", "-b", file, "--export-data", "data")
    served = free_port()
    process = nel.start("serve", "-b", file, "--port", str(served), "--no-token", "--gym-compat")
    try:
        assert process.stdout is not None and process.stdout.readline()
        with gym(
            nemo_gym_python, nel.folder, server.url, "m", f"http://127.0.0.1:{served}"
        ) as port:
            solver = {
                "type": "gym_delegation",
                "service": "model",
                "gym_service": "gym",
                "trust_reward": True,
            }
            config = nel.config(
                "c.yaml",
                services={
                    "model": api(server.url),
                    "gym": {"type": "gym", "url": f"http://127.0.0.1:{port}"},
                },
                benchmarks=[
                    {
                        "name": f"gym://127.0.0.1:{served}?data=data/sums.jsonl",
                        "id": "b",
                        "solver": solver,
                    }
                ],
                output={"dir": "out"},
            )
            nel("eval", "run", config, timeout=300)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=90)
    assert [row["reward"] for row in rows(nel.folder / "out" / "b")] == [1.0, 0.0, 0.0, 1.0]
