"""The jobs of a run: all of them, in the order of their numbers, before and after they begin."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_evaluator.core.files import write_json
from nemo_evaluator.executors.base import Life
from nemo_evaluator.launch import status as status_module
from nemo_evaluator.launcher.jobs import find_jobs
from nemo_evaluator.store.run_registry import RunMeta

_KEYS = [
    f"{name}.{number}" for number, name in enumerate(["zeta", "mmlu", "gsm8k", *"abcdefg", "alpha"])
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunMeta:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setattr(status_module, "status_of", lambda _: Life("pending"))
    found = RunMeta(
        "20260101_000000_0123abcd", "slurm", str(tmp_path / "out"), "2026-01-01T00:00:00+00:00", "zeta (+10 more)",
        {"benchmarks": _KEYS},
    )  # fmt: skip
    found.save()
    return found


def test_jobs_that_wait_for_the_cluster_are_listed_by_name(run: RunMeta) -> None:
    jobs = find_jobs("0123abcd")
    assert [(job.job_id, job.task, job.status) for job in jobs] == [
        (f"0123abcd.{number}", key, "PENDING") for number, key in enumerate(_KEYS)
    ]
    assert [job.task for job in find_jobs("0123abcd.10")] == ["alpha.10"]


def test_jobs_keep_their_order_and_one_that_could_not_begin_is_there(run: RunMeta) -> None:
    folder = Path(run.output_dir)
    failed = {"mmlu.1": {"error": "no such dataset"}}
    write_json(
        folder / "checkpoint.json", {"planned_benchmarks": _KEYS, "failed_benchmarks": failed}
    )
    for key in ("gsm8k.2", "alpha.10"):
        (folder / key).mkdir(parents=True)
        (folder / key / "journal.jsonl").touch()
    jobs = find_jobs("0123abcd")
    assert [job.task for job in jobs] == _KEYS
    found = {job.task: job.status for job in jobs}
    assert (found["mmlu.1"], found["gsm8k.2"], found["zeta.0"]) == ("FAILED", "RUNNING", "PENDING")
