"""Results of batches that were changed on disk before they counted: none is believed. Only the user can read them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from batch_runs import SERVERS, check_whole, double, write
from batch_server import Fate
from forked_nel import ForkedNel, forked_nel
from openai_batches import OpenAIBatches

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.models.batch.vendor import checked_id

SIZE = 6


@pytest.fixture(scope="module")
def fork() -> Iterator[ForkedNel]:
    with forked_nel() as nel:
        yield nel


def edit_answers(path: Path) -> None:
    """Every answer is another one."""
    text = path.read_text()
    for number in range(SIZE):
        text = text.replace(f'"content":"{2 * number}"', '"content":"777"')
        text = text.replace(f'"text":"{2 * number}"', '"text":"777"')
    assert text != path.read_text()
    path.write_text(text)


def flip_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut_it_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def write_nonsense(path: Path) -> None:
    path.write_bytes(b"\xff\xfe not json\n[1]\n{}\n")


def remove_it(path: Path) -> None:
    path.unlink()


def swap_ids(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines() if line]
    ids = [line["custom_id"] for line in lines]
    for line, custom_id in zip(lines, ids[1:] + ids[:1], strict=True):
        line["custom_id"] = custom_id
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


TAMPERING = [edit_answers, flip_a_bit, cut_it_off, write_nonsense, remove_it, swap_ids]
CASES = [(provider, tamper) for provider in SERVERS for tamper in TAMPERING]
if not os.environ.get("NEL_TEST_ALL"):
    CASES = [
        ("openai", edit_answers),
        ("openai", write_nonsense),
        ("anthropic", edit_answers),
        ("anthropic", remove_it),
    ]


def killed_after_collecting(fork: ForkedNel, folder: Path) -> Path:
    """A run that was killed when its results were on disk, and no answer was in its journal; the file of results."""
    fork(folder, "eval", "run", "c.yaml", crash=("collected", "after"))
    (results,) = (folder / "out").rglob("results-*.jsonl")
    return results


@pytest.mark.parametrize(("provider", "tamper"), CASES)
def test_changed_results_are_collected_again(
    fork: ForkedNel, tmp_path: Path, provider: str, tamper: Callable[[Path], None]
) -> None:
    with SERVERS[provider](double, fates=[Fate()]) as server:
        write(tmp_path, server, SIZE)
        tamper(killed_after_collecting(fork, tmp_path))
        assert fork(tmp_path, "eval", "run", "c.yaml", "--resume") == 0, (
            tmp_path / "nel.log"
        ).read_text()
        check_whole(tmp_path, server, SIZE)
        assert len(server.batches) == 1
        assert "is not what batch" in (tmp_path / "nel.log").read_text()


@pytest.mark.parametrize("provider", SERVERS)
def test_what_the_vendor_no_longer_has_is_asked_again(
    fork: ForkedNel, tmp_path: Path, provider: str
) -> None:
    with SERVERS[provider](double, fates=[Fate()]) as server:
        write(tmp_path, server, SIZE)
        edit_answers(killed_after_collecting(fork, tmp_path))
        server.batches.clear()
        assert fork(tmp_path, "eval", "run", "c.yaml", "--resume") == 0, (
            tmp_path / "nel.log"
        ).read_text()
        check_whole_again(tmp_path)
        assert len(server.batches) == 1
        assert "sends its requests again" in (tmp_path / "nel.log").read_text()


def check_whole_again(folder: Path) -> None:
    """Every answer is the vendor's."""
    rows = [
        json.loads(line)
        for line in (folder / "out" / "sums" / "results.jsonl").read_text().splitlines()
    ]
    assert [row["reward"] for row in rows] == [1.0] * SIZE


def test_untouched_results_are_used_as_they_are_and_are_private(
    fork: ForkedNel, tmp_path: Path
) -> None:
    with OpenAIBatches(double, fates=[Fate()]) as server:
        write(tmp_path, server, SIZE)
        results = killed_after_collecting(fork, tmp_path)
        downloads = server.calls["download"]
        assert fork(tmp_path, "eval", "run", "c.yaml", "--resume") == 0, (
            tmp_path / "nel.log"
        ).read_text()
        check_whole(tmp_path, server, SIZE)
        assert server.calls["download"] == downloads
    folder = results.parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "bad",
    ["", "../files", "a/b", "a?b", "a#b", "a b", "a\nb", "%2e%2e", "..", "-rf", "x" * 300, 7, None],
)
def test_an_id_that_would_lead_elsewhere_is_refused(bad: object) -> None:
    with pytest.raises(TransportError, match="cannot be part of a URL"):
        checked_id(bad)
    assert checked_id("batch_68a1-b.c:d") == "batch_68a1-b.c:d"
