"""Results of batches that arrive damaged: the good lines count, only missing ones are paid for again, and nel says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_runs import SERVERS, check_whole, double, write
from batch_server import BatchServer
from forked_nel import ForkedNel, forked_nel
from nel_support import rows

from nemo_evaluator.testing import Say

SIZE = 10
Damage = Callable[[bytes, int], bytes]


@pytest.fixture(scope="module")
def fork() -> Iterator[ForkedNel]:
    with forked_nel() as nel:
        yield nel


def changed_lines(data: bytes, change: Callable[[bytes], bytes], numbers: range) -> bytes:
    """The lines of a download, some of them changed."""
    lines = data.splitlines(keepends=True)
    for number in numbers:
        lines[number] = change(lines[number])
    return b"".join(lines)


def without_id(line: bytes) -> bytes:
    row = json.loads(line)
    del row["custom_id"]
    return json.dumps(row).encode() + b"\n"


def without_content(line: bytes) -> bytes:
    """A result that is there, in which the answer is not."""
    row = json.loads(line)
    if "result" in row:
        row["result"]["message"] = {}
    else:
        row["response"] = {"status_code": None}
    return json.dumps(row).encode() + b"\n"


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[: len(line) // 2] + b"\n",
    "null": lambda _line: b"null\n",
    "no id": without_id,
    "not text": lambda _line: b"\xff\xfe\x00\n",
}


def run(fork: ForkedNel, folder: Path, code: int = 0) -> str:
    """Run or resume; what was printed."""
    assert fork(folder, "eval", "run", "c.yaml", "--resume") == code
    return (folder / "nel.log").read_text()


@pytest.mark.parametrize(
    ("provider", "change"), [*(("openai", change) for change in CHANGES), ("anthropic", "cut off")]
)
def test_only_damaged_lines_are_paid_for_again(
    fork: ForkedNel, tmp_path: Path, provider: str, change: str
) -> None:
    with SERVERS[provider](double) as server:
        first_batch = range(3)
        server.damage = lambda data, number: (
            changed_lines(data, CHANGES[change], range(2)) if number in first_batch else data
        )
        write(tmp_path, server, SIZE)
        printed = run(fork, tmp_path)
        assert [row["reward"] for row in rows(tmp_path / "out" / "sums")] == [1.0] * SIZE
        assert [len(batch.requests) for batch in server.batches.values()] == [SIZE, 2]
    assert "2 of 10 results cannot be read after 3 downloads" in printed
    assert "paid for twice" in printed


@pytest.mark.parametrize("provider", SERVERS)
def test_a_damaged_download_is_repeated_before_anything_is_paid_again(
    fork: ForkedNel, tmp_path: Path, provider: str
) -> None:
    with SERVERS[provider](double) as server:
        server.damage = lambda data, number: data[: len(data) // 2] if number < 2 else data
        write(tmp_path, server, SIZE)
        printed = run(fork, tmp_path)
        check_whole(tmp_path, server, SIZE)
        assert server.downloads == 3
    assert "twice" not in printed


def test_the_best_download_counts(fork: ForkedNel, tmp_path: Path) -> None:
    kept_bytes = {0: 0.5, 1: 0.9, 2: 0.2}
    with SERVERS["openai"](double) as server:
        server.damage = lambda data, number: data[: int(len(data) * kept_bytes.get(number, 1.0))]
        write(tmp_path, server, SIZE)
        run(fork, tmp_path)
        assert [len(batch.requests) for batch in server.batches.values()] == [SIZE, 1]


@pytest.mark.parametrize("provider", SERVERS)
def test_without_a_readable_result_the_run_stops_and_a_resume_downloads_again(
    fork: ForkedNel, tmp_path: Path, provider: str
) -> None:
    with SERVERS[provider](double) as server:
        server.damage = lambda _data, _number: b"<html>busy</html>\n"
        write(tmp_path, server, SIZE)
        printed = run(fork, tmp_path, code=2)
        assert f"none of its {SIZE} results can be read" in printed
        assert "Traceback" not in printed
        printed = run(fork, tmp_path, code=2)
        assert "Traceback" not in printed
        server.damage = None
        run(fork, tmp_path)
        check_whole(tmp_path, server, SIZE)


@pytest.mark.parametrize("provider", SERVERS)
def test_a_result_without_an_answer_is_never_a_reward(
    fork: ForkedNel, tmp_path: Path, provider: str
) -> None:
    with SERVERS[provider](double) as server:
        server.damage = lambda data, _number: changed_lines(data, without_content, range(1))
        write(tmp_path, server, SIZE)
        run(fork, tmp_path, code=3)
        (failed,) = [row for row in rows(tmp_path / "out" / "sums") if row["status"] == "failed"]
        assert failed["reward"] is None
        assert failed["failure"]["cause"] == "transport"
        assert "cannot be read" in failed["failure"]["message"]


def lose_an_answer(server: BatchServer, folder: Path) -> None:
    """A run with a price, whose first batch arrives with one line that cannot be read."""
    server.damage = lambda data, number: (
        changed_lines(data, CHANGES["null"], range(1)) if number < 3 else data
    )
    write(folder, server, SIZE)
    config: dict[str, Any] = json.loads((folder / "c.yaml").read_text())
    config["services"]["model"]["price"] = {"input": 10.0, "output": 10.0}
    (folder / "c.yaml").write_text(json.dumps(config))


@pytest.mark.parametrize("killed", [False, True])
def test_lost_answers_are_in_the_cost(fork: ForkedNel, tmp_path: Path, killed: bool) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200}
    with SERVERS["openai"](Say("0", usage=usage)) as server:
        lose_an_answer(server, tmp_path)
        if killed:
            fork(tmp_path, "eval", "run", "c.yaml", crash=("collected", "after"))
        run(fork, tmp_path)
        costs = [row["cost_usd"] for row in rows(tmp_path / "out" / "sums")]
        assert sorted(costs) == pytest.approx([0.001] * (SIZE - 1) + [0.002])
        assert [len(batch.requests) for batch in server.batches.values()] == [SIZE, 1]
