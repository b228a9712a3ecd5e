"""Shards of any shape merge to what one run would have written; the shards stay as they are."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import JudgeError, SandboxError, TransportError, UsageError
from nemo_evaluator.core.files import iter_jsonl, read_json
from nemo_evaluator.engine import merge as merge_module
from nemo_evaluator.engine.evaluation import Finished, evaluate
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.engine.job import Evaluation
from nemo_evaluator.engine.merge import merge_shards
from nemo_evaluator.engine.plan import Shard
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.store.lock import folder_lock
from nemo_evaluator.store.sealed import seal
from nemo_evaluator.store.sums import FILE as SUMS

# What depends on the clock, and what says how it came about.
CLOCK = {"run_id", "timestamp"}


class Runs:
    """One benchmark, run whole or in parts."""

    def __init__(self, sums: Any, scripted: Any, root: Path) -> None:
        self.sums, self.scripted, self.root = sums, scripted, root
        self.parts = root / "parts"
        self.job = Evaluation(
            sums,
            scripted,
            root / "whole" / "sums",
            repeats=2,
            service={"model": "m"},
            solver_settings={"type": "simple"},
            config={"model": "m"},
            max_system_retries=1,
            min_coverage=0.5,
        )

    async def whole(self, **changes: Any) -> Finished:
        return await evaluate(replace(self.job, **changes))

    async def shard(
        self, index: int, total: int, folder: str | None = None, **changes: Any
    ) -> Finished:
        task = self.parts / (folder or f"shard_{index}") / "sums"
        return await evaluate(
            replace(self.job, task_dir=task, shard=Shard(index, total), **changes)
        )

    def merge(self) -> dict[str, Any]:
        (bundle,) = merge_shards(self.parts)
        return dict(bundle)

    def assert_as_whole(self) -> None:
        whole, merged = self.root / "whole" / "sums", self.parts / "sums"
        assert (merged / "results.jsonl").read_bytes() == (whole / "results.jsonl").read_bytes()
        assert _untimed(merged / "trajectories.jsonl") == _untimed(whole / "trajectories.jsonl")
        assert _bundle(merged) == _bundle(whole)


def _untimed(path: Path) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in row.items() if k not in ("timestamp", "timing")}
        for row in iter_jsonl(path)
    ]


def _bundle(folder: Path) -> dict[str, Any]:
    (path,) = find_bundles(folder)
    bundle = {key: value for key, value in read_json(path).items() if key not in CLOCK}
    runtime = bundle["benchmark"]["scores"]["runtime"]
    for key in ("elapsed_seconds", "tokens_per_second", "steps_per_second"):
        del runtime[key]
    for key in ("n_shards", "resumed"):
        bundle["config"].pop(key, None)
    return bundle


def _hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.fixture
def runs(sums: Any, scripted: Any, tmp_path: Path) -> Runs:
    return Runs(sums, scripted, tmp_path)


def _sometimes_wrong(prompt: str) -> Any:
    n = int(prompt.split()[-1].rstrip("?"))
    if n % 5 == 4:
        return TransportError("reset")
    return str(2 * n if n % 3 else n)


@pytest.mark.parametrize(
    ("size", "total", "changes"),
    [
        (10, 1, {}),
        (10, 3, {"repeats": 1}),
        (11, 4, {"repeats": 3, "shuffle_seed": 42}),
        (23, 12, {"shuffle_seed": 7, "max_problems": 17}),
        (3, 5, {}),
    ],
)
async def test_any_shape_gives_what_one_run_writes(
    runs: Runs, size: int, total: int, changes: dict[str, Any]
) -> None:
    runs.sums.size, runs.scripted.answer = size, _sometimes_wrong
    await runs.whole(**changes)
    for index in random.Random(size).sample(range(total), total):
        await runs.shard(index, total, **changes)
    before = _hashes(runs.parts)
    assert runs.merge()["validity"]["status"] == "VALID"
    runs.assert_as_whole()
    first = _hashes(runs.parts / "sums")
    runs.merge()
    assert _hashes(runs.parts / "sums") == first
    assert {
        name: digest for name, digest in _hashes(runs.parts).items() if name.startswith("shard_")
    } == before


async def test_shards_cut_differently_fit_together_where_they_cover_the_whole(runs: Runs) -> None:
    runs.sums.size = 12
    await runs.whole()
    for index, total in ((0, 2), (2, 4)):
        await runs.shard(index, total)
    # Within what the first has.
    await runs.shard(1, 6, folder="shard_8")
    assert (
        runs.merge()["validity"]["reasons"][-1] == "shards are missing: problems 9-11 of the plan"
    )
    await runs.shard(3, 4)
    runs.merge()
    runs.assert_as_whole()


async def test_what_overlaps_is_taken_once_from_the_shard_that_got_furthest(runs: Runs) -> None:
    await runs.whole()
    runs.scripted.answer = lambda prompt: SandboxError("gone")
    await runs.shard(0, 2)
    runs.scripted.answer = type(runs.scripted).answer
    await runs.shard(1, 2)
    await runs.shard(0, 2, folder="shard_7")
    runs.merge()
    runs.assert_as_whole()


async def test_of_equal_shards_the_first_by_number_counts(runs: Runs) -> None:
    await runs.shard(0, 1, folder="shard_2")
    runs.scripted.answer = lambda prompt: "wrong"
    await runs.shard(0, 1, folder="shard_10")
    assert runs.merge()["benchmark"]["scores"]["pass@1"]["value"] == 1.0


async def test_an_answer_that_was_asked_anew_and_not_judged_has_no_verdict(runs: Runs) -> None:
    """It is in the journal, for a resume to judge, and in no row."""
    finished = await runs.shard(0, 1)
    task = finished.task
    lines = task.journal.read_bytes().splitlines(keepends=True)
    anew = next(
        line for line in lines if line.startswith(b'{"kind":"answer","problem_idx":3,"repeat":1')
    )
    record = {key: value for key, value in json.loads(anew).items() if key != "crc"}
    new, _ = seal(record | {"response": "7"})
    (task.root / SUMS).unlink()
    task.journal.write_bytes(b"".join([*lines, lines[0], new]))
    rows = task.results.read_bytes().splitlines(keepends=True)
    task.results.write_bytes(
        b"".join(row for row in rows if not row.startswith(b'{"problem_idx":3,"repeat":1'))
    )
    assert runs.merge()["benchmark"]["coverage"]["scored"] == 19
    merged = TaskPaths(runs.parts / "sums")
    assert merged.results.read_bytes() == task.results.read_bytes()
    assert new in merged.journal.read_bytes()
    assert anew not in merged.journal.read_bytes()


async def test_an_answer_is_never_shown_with_the_verdict_on_another(runs: Runs) -> None:
    """Two shards hold the same problems; in one the judge did not answer."""

    def judge_is_down(response: str) -> None:
        raise JudgeError("down")

    runs.sums.on_verify, runs.scripted.answer = judge_is_down, lambda prompt: "wrong"
    await runs.shard(0, 1)
    runs.sums.on_verify, runs.scripted.answer = None, type(runs.scripted).answer
    await runs.shard(0, 1, folder="shard_1")
    runs.merge()
    for row in iter_jsonl(runs.parts / "sums" / "results.jsonl"):
        assert (row["model_response"], row["reward"]) == (row["expected_answer"], 1.0)


async def test_a_resumed_shard_counts_as_its_own_rows_say(runs: Runs) -> None:
    """Answers of an earlier config that were not asked again are in its journal, and not in its result."""
    old, new = {"solver_settings": {"type": "simple", "temperature": 1.0}}, {}
    await runs.shard(0, 2, **old)
    halt, asked = Halt(), len(runs.scripted.asked)

    def three_then_stop(prompt: str) -> Any:
        if len(runs.scripted.asked) - asked > 3:
            halt.set(HaltKind.BUDGET, "spent")
            return TransportError("gone")
        return "new"

    runs.scripted.answer = three_then_stop
    await runs.shard(0, 2, resume=True, max_concurrent=1, halt=halt, **new)
    own = (runs.parts / "shard_0" / "sums" / "results.jsonl").read_bytes()
    runs.scripted.answer = lambda prompt: "new"
    await runs.shard(1, 2)
    bundle = runs.merge()
    merged = (runs.parts / "sums" / "results.jsonl").read_bytes()
    other = (runs.parts / "shard_1" / "sums" / "results.jsonl").read_bytes()
    assert sorted(merged.splitlines()) == sorted((own + other).splitlines())
    assert "resumed" not in bundle["config"]
    assert bundle["stopped"]["reason"] == "shard_0: spent"
    assert bundle["benchmark"]["coverage"]["planned"] == 20


async def test_a_row_that_failed_when_it_was_asked_anew_has_no_older_answer(runs: Runs) -> None:
    await runs.shard(0, 1, solver_settings={"type": "simple", "temperature": 1.0})
    runs.scripted.answer = lambda prompt: TransportError("reset")
    await runs.shard(0, 1, resume=True)
    runs.merge()
    own, merged = (
        (folder / "sums" / "results.jsonl") for folder in (runs.parts / "shard_0", runs.parts)
    )
    assert merged.read_bytes() == own.read_bytes()
    assert all(row["model_response"] == "" for row in iter_jsonl(merged))


async def test_a_shard_that_was_resumed_and_killed_is_refused(runs: Runs) -> None:
    await runs.shard(0, 1)
    task = runs.parts / "shard_0" / "sums"
    kept = next(task.glob("eval-*.json")).read_bytes(), (task / "results.jsonl").read_bytes()
    await runs.shard(0, 1, resume=True, solver_settings={"type": "simple", "temperature": 1.0})
    (newest,) = task.glob("eval-*.json")
    (task / SUMS).unlink()
    newest.write_bytes(kept[0])
    (task / "results.jsonl").write_bytes(kept[1])
    with pytest.raises(UsageError, match="resumed after its bundle") as caught:
        runs.merge()
    assert "--resume" in str(caught.value.hint)
    newest.unlink()
    with pytest.raises(UsageError, match="no bundle yet"):
        runs.merge()
    assert not (runs.parts / "sums").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"repeats": 3}, r"another repeats than .*shard_0/sums \(3, 2\)"),
        ({"solver_settings": {"type": "simple", "temperature": 1.0}}, "its solver differ"),
        ({"service": {"model": "n"}}, "its service differ"),
        ({"config": {"model": "m", "fewshot": 5}}, r"another fewshot than .* \(5, None\)"),
        ({"max_problems": 8}, "another max_problems"),
        ({"shuffle_seed": 3}, "another shuffle_seed"),
        ({"min_coverage": 0.1}, "another min_coverage"),
    ],
)
async def test_shards_of_different_runs_are_refused_with_the_reason(
    runs: Runs, changes: dict[str, Any], said: str
) -> None:
    await runs.shard(0, 2)
    await runs.shard(1, 2, **changes)
    with pytest.raises(UsageError, match=said):
        runs.merge()
    assert not (runs.parts / "sums").exists()


async def test_another_dataset_or_scorer_is_another_run(runs: Runs) -> None:
    await runs.shard(0, 2)
    runs.sums.size = 11
    await runs.shard(1, 2)
    with pytest.raises(UsageError, match=r"another dataset size than .* \(11, 10\)"):
        runs.merge()
    runs.sums.size, runs.sums.version = 10, "2"
    await runs.shard(1, 2)
    with pytest.raises(UsageError, match="its scorer differ"):
        runs.merge()


async def test_missing_shards_are_named_also_the_last_ones(runs: Runs) -> None:
    for index in (0, 2):
        await runs.shard(index, 5)
    shutil.copytree(runs.parts / "shard_2", runs.parts / "shard_3.bak")
    bundle = runs.merge()
    assert bundle["validity"]["status"] == "INVALID"
    assert bundle["validity"]["reasons"][-1] == "shards are missing: 1, 3, 4"
    assert bundle["config"]["n_shards"] == 2
    stamps = [read_json(path)["timestamp"] for path in runs.parts.glob("shard_?/sums/eval-*.json")]
    assert bundle["timestamp"] == max(stamps) > min(stamps)
    assert bundle["benchmark"]["coverage"]["planned"] == 20


async def test_what_a_shard_was_before_it_was_run_anew_does_not_count(runs: Runs) -> None:
    await runs.whole()
    runs.scripted.answer = lambda prompt: "wrong"
    await runs.shard(0, 1)
    runs.scripted.answer = type(runs.scripted).answer
    await runs.shard(0, 1)
    assert list((runs.parts / "shard_0" / "sums" / "previous").iterdir())
    runs.merge()
    runs.assert_as_whole()


async def test_a_merged_run_goes_on_where_a_shard_is_missing(runs: Runs) -> None:
    await runs.whole()
    await runs.shard(0, 2)
    runs.merge()
    asked = len(runs.scripted.asked)
    await evaluate(replace(runs.job, task_dir=runs.parts / "sums", resume=True))
    assert len(runs.scripted.asked) - asked == 10
    runs.assert_as_whole()


async def test_a_run_of_its_own_in_the_way_is_kept(runs: Runs) -> None:
    await evaluate(replace(runs.job, task_dir=runs.parts / "sums"))
    own = _hashes(runs.parts / "sums")
    await runs.shard(0, 1)
    runs.merge()
    (kept,) = (runs.parts / "sums" / "previous").iterdir()
    assert _hashes(kept) == own
    runs.merge()
    assert [kept] == list((runs.parts / "sums" / "previous").iterdir())


@pytest.mark.parametrize("broken", ["write_views", "build_bundle", "store_bundle", "replace"])
async def test_a_merge_that_breaks_off_leaves_nothing_half(
    runs: Runs, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runs.whole()
    for index in range(2):
        await runs.shard(index, 3)
    runs.merge()
    before = _hashes(runs.parts / "sums")
    await runs.shard(2, 3)

    def breaks(*args: Any, **more: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if broken == "replace":
            patch.setattr(Path, "replace", _breaks_at("results.jsonl"))
        else:
            patch.setattr(merge_module, broken, breaks)
        with pytest.raises(KeyboardInterrupt):
            runs.merge()
    found = find_bundles(runs.parts)
    if broken in ("write_views", "build_bundle"):
        after = {
            name: digest
            for name, digest in _hashes(runs.parts / "sums").items()
            if ".merging" not in name
        }
        assert after == before
        assert found == list((runs.parts / "sums").glob("eval-*.json"))
    else:
        # Between two renames: no merged result at all, the shards speak for themselves.
        assert [path.parent.parent.name for path in found] == ["shard_0", "shard_1", "shard_2"]
    runs.merge()
    runs.assert_as_whole()
    assert sorted(
        path.name for path in (runs.parts / "sums").iterdir() if path.suffix != ".json"
    ) == [
        "SHA256SUMS",
        "journal.jsonl",
        "results.jsonl",
        "trajectories.jsonl",
    ]


def _breaks_at(name: str) -> Callable[[Path, Path], Path]:
    real = Path.replace

    def replace_or_break(self: Path, target: Path) -> Path:
        if (
            Path(target).name == name
            and ".merging" in self.parts
            and ".merging" not in Path(target).parts
        ):
            raise KeyboardInterrupt
        return real(self, target)

    return replace_or_break


async def test_two_merges_at_once_do_not_meet(runs: Runs) -> None:
    await runs.shard(0, 1)
    runs.merge()
    room = runs.parts / "sums" / ".merging"
    room.mkdir()
    with folder_lock(room.parent), pytest.raises(UsageError, match="is in use by"):
        runs.merge()
    (room / "model_traffic.jsonl").write_text("left by a merge that was killed")
    runs.merge()
    assert not room.exists()
    assert not TaskPaths(room.parent).traffic.exists()


async def test_traffic_is_joined_and_scores_over_all_rows_are_asked_for(runs: Runs) -> None:
    for index in range(2):
        await runs.shard(index, 2)
        TaskPaths(runs.parts / f"shard_{index}" / "sums").traffic.write_text(
            f'{{"call": {index}}}\n'
        )
    seen = []

    def aggregate(shard: Path, results: Path) -> dict[str, Any]:
        seen.append((shard, sum(1 for _ in iter_jsonl(results))))
        return {"f1": {"value": 0.5}}

    (bundle,) = merge_shards(runs.parts, aggregate)
    assert seen == [(runs.parts / "shard_0" / "sums", 20)]
    assert bundle["benchmark"]["scores"]["f1"] == {"value": 0.5}
    assert TaskPaths(runs.parts / "sums").traffic.read_text() == '{"call": 0}\n{"call": 1}\n'
    for index in range(2):
        TaskPaths(runs.parts / f"shard_{index}" / "sums").traffic.unlink()
    runs.merge()
    assert not TaskPaths(runs.parts / "sums").traffic.exists()


async def test_a_score_that_cannot_be_merged_is_named(runs: Runs) -> None:
    for index in range(2):
        await runs.shard(index, 2, aggregate=lambda results: {"f1": {"value": 0.5}})
    assert runs.merge()["scores_not_merged"] == ["f1"]
