"""JSON lines: read in order by blocks, at random row by row, and always the row that was asked for."""

import random
from pathlib import Path

import orjson
import pytest

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.datasets.base import MappedRows
from nemo_evaluator.datasets.jsonl import JsonlRows


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
def test_any_order_gives_the_same_rows(tmp_path: Path, ending: bytes) -> None:
    rng = random.Random(1)
    rows = [{"n": number, "text": "é" * rng.choice((0, 3, 400, 50_000))} for number in range(300)]
    lines = (ending or b"\n\n").join(map(orjson.dumps, rows)) + ending
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + lines)
    read = JsonlRows(path)
    assert len(read) == len(rows)
    assert [read[number] for number in range(len(rows))] == rows
    order = rng.sample(range(len(rows)), len(rows))
    assert [read[number] for number in order] == [rows[number] for number in order]
    assert list(read) == rows
    read.close()
    assert read[7] == rows[7]


def test_a_row_is_the_callers_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a":1}\n{"a":2}\n')
    read = JsonlRows(path)
    read[0]["a"] = 5
    assert read[0] == {"a": 1}


def test_a_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a":1}\n[1]\n{"a"\n')
    read = JsonlRows(path)
    with pytest.raises(SeedError, match="row 1 is not a JSON object"):
        read[1]
    with pytest.raises(SeedError, match="row 2 is not JSON"):
        read[2]


def test_rows_that_are_expected_are_the_same_rows(tmp_path: Path) -> None:
    rows = [{"n": number, "text": "é" * (number % 7)} for number in range(100)]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    read = MappedRows(JsonlRows(path)[10:], lambda row, number: row | {"at": number})
    order = random.Random(1).sample(range(90), 90)
    for start in range(0, 90, 30):
        read.expect(order[start : start + 30])
        for number in [*order[start : start + 30], 5]:
            assert read[number] == rows[number + 10] | {"at": number}
