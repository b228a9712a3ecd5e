"""Runs through vendors' batch APIs: killed anywhere they lose nothing, and every end of a batch ends by the rules."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_nel import ForkedNel, forked_nel
from nel_support import SUMS, api, bench, rows

from nemo_evaluator.testing import AnthropicBatches, Fate, OpenAIBatches, Seen
from nemo_evaluator.testing.batch_server import BatchServer, Refused

SERVERS = {"openai": OpenAIBatches, "anthropic": AnthropicBatches}
WRITES = ["prepared", "uploading", "uploaded", "submitting", "submitted", "collected"]
CALLS = {"openai": ["upload", "submit", "poll", "download"], "anthropic": ["submit", "poll", "results"]}
POINTS = [
    (provider, kind, name, when)
    for provider in SERVERS
    for kind, names in (("write", WRITES), ("call", CALLS[provider]))
    for name in names
    for when in ("before", "after")
]


@pytest.fixture(scope="module")
def fork() -> Iterator[ForkedNel]:
    with forked_nel() as nel:
        yield nel


def double(seen: Seen) -> str:
    """The right answer."""
    return str(2 * int(seen.prompt.split()[3]))


def write(folder: Path, server: BatchServer, size: int, judge: dict[str, Any] | None = None, **more: Any) -> None:
    """A config with one benchmark whose model is reached through batches."""
    (folder / "sums.py").write_text(SUMS.format(size=size))
    provider = next(name for name, kind in SERVERS.items() if isinstance(server, kind))
    batch = {"provider": provider, "max_requests": size, **more}
    waits = {"first_byte": 1.0, "outage": 5.0}
    generation = {"max_tokens": 16}
    model = api(server.url, api_key="k", batch=batch, timeouts=waits, generation=generation)
    config = {"services": {"model": model}, "benchmarks": [bench("sums.py")], "output": {"dir": "out"}}
    (folder / "c.yaml").write_text(json.dumps(config))


def check_whole(folder: Path, server: BatchServer, size: int) -> None:
    """Every problem has one scored row and one answer, was paid for once, and was in one batch."""
    scored = rows(folder / "out" / "sums")
    assert [row["reward"] for row in scored] == [1.0] * size, (folder / "nel.log").read_text()
    assert sorted(server.answered.values()) == [1] * size
    submitted = Counter(row.custom_id for batch in server.batches.values() for row in batch.requests)
    assert set(submitted.values()) == {1}
    records = map(json.loads, (folder / "out" / "sums" / "journal.jsonl").read_text().splitlines())
    answers = Counter(record["problem_idx"] for record in records if record["kind"] == "answer")
    assert answers == dict.fromkeys(range(size), 1)


def kill_at(fork: ForkedNel, folder: Path, server: BatchServer, kind: str, name: str, when: str) -> None:
    """Run until a point of the protocol, where the process is killed."""
    pids: list[int] = []

    def on_call(called: str, moment: str) -> None:
        if kind == "call" and (called, moment) == (name, when):
            server.on_call = None
            os.kill(pids[0], signal.SIGKILL)
            if when == "before":
                raise Refused(503, "the client is gone")

    server.on_call = on_call
    crash = (name, when) if kind == "write" else None
    code = fork(folder, "eval", "run", "c.yaml", crash=crash, started=pids.append)
    assert code == -signal.SIGKILL, (folder / "nel.log").read_text()
    server.on_call = None


@pytest.mark.parametrize(("provider", "kind", "name", "when"), POINTS)
def test_killed_at_any_point_nothing_is_lost_or_asked_twice(
    fork: ForkedNel, tmp_path: Path, provider: str, kind: str, name: str, when: str
):
    with SERVERS[provider](double, fates=[Fate(polls=1)]) as server:
        write(tmp_path, server, 30)
        kill_at(fork, tmp_path, server, kind, name, when)
        assert fork(tmp_path, "eval", "run", "c.yaml", "--resume") == 0, (tmp_path / "nel.log").read_text()
        check_whole(tmp_path, server, 30)
        assert len(server.batches) == 1
