"""Rows of files: every format, read at random, without holding them."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.datasets import ChainedRows, ListRows, MappedRows, open_rows

ROWS = [{"q": f"question {i}", "n": i, "text": 'line\n"quoted", ünï'} for i in range(50)]


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_jsonl_is_read_at_random_and_backwards(tmp_path: Path) -> None:
    rows = open_rows(write_jsonl(tmp_path / "a.jsonl", ROWS))
    assert len(rows) == 50
    assert [rows[i] for i in reversed(range(50))] == ROWS[::-1]
    assert rows[-1] == ROWS[-1]
    assert list(rows[3:6]) == ROWS[3:6]
    with pytest.raises(IndexError):
        rows[50]


def test_jsonl_without_final_newline_with_blank_lines_and_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\n\r\n{"a": 2}\r\n{"a": 3}')
    assert [row["a"] for row in open_rows(path)] == [1, 2, 3]


def test_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert len(open_rows(tmp_path / "a.jsonl")) == 0


def test_rows_longer_than_the_reading_block(tmp_path: Path) -> None:
    big = [{"a": "x" * 1_500_000}, {"a": "y" * 700_000}, {"a": "z"}]
    assert list(open_rows(write_jsonl(tmp_path / "a.jsonl", big))) == big


def test_a_bad_row_is_named_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a": \n[1, 2]\n')
    rows = open_rows(path)
    assert rows[0] == {"a": 1}
    with pytest.raises(SeedError, match="row 1 is not JSON"):
        rows[1]
    with pytest.raises(SeedError, match="row 2 is not a JSON object"):
        rows[2]


@pytest.mark.parametrize("suffix", ["jsonl", "json", "csv", "tsv", "parquet"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_also_gzipped(tmp_path: Path, suffix: str, packed: bool) -> None:
    path = tmp_path / f"data.{suffix}"
    expected: list[dict[str, object]] = ROWS
    if suffix == "jsonl":
        write_jsonl(path, ROWS)
    elif suffix == "json":
        path.write_text(json.dumps(ROWS))
    elif suffix == "parquet":
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.Table.from_pylist(ROWS), path, row_group_size=7)
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter="," if suffix == "csv" else "\t")
            writer.writeheader()
            writer.writerows(ROWS)
        expected = [{key: str(value) for key, value in row.items()} for row in ROWS]
    if packed:
        zipped = path.with_name(path.name + ".gz")
        zipped.write_bytes(gzip.compress(path.read_bytes()))
        path = zipped
    rows = open_rows(str(path))
    assert len(rows) == 50
    assert rows[31] == expected[31]
    assert list(rows) == expected


@pytest.mark.parametrize(("group", "kind"), [(20, "ParquetRows"), (5, "JsonlRows")])
def test_parquet_of_many_row_groups_is_read_at_random_from_lines(
    tmp_path: Path, group: int, kind: str
) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet", row_group_size=group)
    rows = open_rows(tmp_path / "a.parquet")
    assert type(rows).__name__ == kind
    assert [rows[idx] for idx in reversed(range(50))] == ROWS[::-1]


def test_json_may_be_an_object_that_holds_the_list_or_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"data": ROWS}))
    assert len(open_rows(tmp_path / "a.json")) == 50
    write_jsonl(tmp_path / "b.json", ROWS)
    assert list(open_rows(tmp_path / "b.json")) == ROWS
    (tmp_path / "c.json").write_text('[{"a": 1},')
    with pytest.raises(UsageError, match="not valid JSON"):
        open_rows(tmp_path / "c.json")


def test_a_gzip_that_changed_is_unpacked_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert open_rows(path)[0] == {"a": 1}
    path.write_bytes(gzip.compress(b'{"a": 2}\n{"a": 3}\n'))
    os.utime(path, ns=(1, 1))
    assert [row["a"] for row in open_rows(path)] == [2, 3]


def test_a_torn_gzip_and_a_ragged_csv_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-20])
    with pytest.raises(UsageError, match="not a whole gzip"):
        open_rows(path)
    (tmp_path / "a.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(UsageError, match="line 2: more fields"):
        open_rows(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "name", ["missing.jsonl", "./data/x", "/tmp/none.csv", "~/none.parquet", "a/b/c"]
)
def test_a_path_that_does_not_exist_is_no_hub_dataset(name: str) -> None:
    with pytest.raises(UsageError, match="does not exist") as caught:
        open_rows(name)
    assert "hf://" in (caught.value.hint or "")


def test_a_path_beside_the_benchmark_file(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", ROWS)
    assert len(open_rows("a.jsonl", tmp_path)) == 50


def test_chained_mapped_and_listed_rows() -> None:
    rows = ChainedRows([ListRows([{"a": 1}]), ListRows([]), ListRows([{"a": 2}, {"a": 3}])])
    doubled = MappedRows(rows, lambda row, idx: {"a": row["a"] * 2, "idx": idx})
    assert list(doubled) == [{"a": 2, "idx": 0}, {"a": 4, "idx": 1}, {"a": 6, "idx": 2}]
    rows[0]["a"] = 99
    assert rows[0] == {"a": 1}
    with pytest.raises(UsageError, match="row 1 of x is a str"):
        ListRows([{}, "text"], "x")


PEAK = """
import resource, sys
from nemo_evaluator.datasets import open_rows
rows = open_rows(sys.argv[1])
total = sum(len(row["text"]) for row in rows)
print(len(rows), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    peaks = []
    for count in (5_000, 200_000):
        path = tmp_path / f"{count}.jsonl"
        with path.open("w") as file:
            for i in range(count):
                file.write(f'{{"n": {i}, "text": "{"x" * 300}"}}\n')
        done = subprocess.run(
            [sys.executable, "-c", PEAK, str(path)], capture_output=True, text=True, check=True
        )
        rows, peak = map(int, done.stdout.split())
        assert rows == count
        peaks.append(peak)
    assert peaks[1] <= 1.25 * peaks[0]
