"""Inspect's own reader reads what we write."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.exporters import export_bundles, get_exporter

pytestmark = [pytest.mark.needs("inspect"), pytest.mark.filterwarnings("ignore")]


def _read(path: Path) -> Any:
    from inspect_ai.log import read_eval_log

    return read_eval_log(str(path))


@pytest.mark.parametrize("fmt", ["eval", "json"])
def test_a_log_has_scores_samples_and_errors(run_dir: Path, fmt: str) -> None:
    written = export_bundles("inspect", [run_dir / "gsm8k"], {"format": fmt}, output_dir=run_dir)
    assert written == [str(run_dir / "gsm8k" / f"gsm8k_inspect.{fmt}")]
    log = _read(Path(written[0]))
    assert (log.status, log.eval.task, log.eval.model, log.eval.config.epochs) == (
        "success",
        "gsm8k",
        "m-1",
        2,
    )
    assert log.eval.model_generate_config.temperature == 0.5
    assert (log.results.total_samples, log.results.completed_samples) == (4, 3)
    scores = {score.name: score for score in log.results.scores}
    assert scores["reward"].metrics["pass@1"].value == 0.5
    assert scores["reward"].metrics["pass@1"].metadata["ci_upper"] == 0.9
    assert scores["strict"].metrics["mean"].value == 0.25
    samples = {(sample.id, sample.epoch): sample for sample in log.samples}
    assert sorted(samples) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    right, cut, failed = samples[0, 1], samples[0, 2], samples[1, 2]
    assert right.scores["reward"].value == 1.0
    assert right.scores["strict"].value == 0.0
    assert (right.input, right.target, right.output.completion) == ("question 0", "4", "answer 0.0")
    assert (right.output.usage.input_tokens, right.output.usage.output_tokens) == (20, 10)
    assert cut.output.stop_reason == "max_tokens"
    # A failed row has an error and no score: never a zero.
    assert failed.scores is None
    assert failed.error.message == "transport: reset"
    assert (log.stats.model_usage["m-1"].total_tokens, log.stats.model_usage["m-1"].total_cost) == (
        120,
        0.002,
    )
    assert (log.stats.started_at, log.stats.completed_at) == (
        "2026-11-15T00:17:00.500000+00:00",
        log.eval.created,
    )
    judge = right.scores["judge"]
    assert (judge.value, judge.explanation, judge.metadata["judge_model"]) == (
        0.75,
        "the unit is missing",
        "j-1",
    )
    assert log.stats.model_usage["j-1"].total_tokens == 55
    assert len({sample.uuid for sample in log.samples}) == 4


@pytest.mark.parametrize("fmt", ["eval", "json"])
def test_headers_and_single_samples_are_read_without_the_rest(run_dir: Path, fmt: str) -> None:
    from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    (path,) = export_bundles("inspect", [run_dir / "gsm8k"], {"format": fmt})
    header = read_eval_log(path, header_only=True)
    assert (header.samples, header.results.completed_samples) == (None, 3)
    assert read_eval_log_sample(path, id=1, epoch=2).error.message == "transport: reset"
    summaries = read_eval_log_sample_summaries(path)
    assert [(one.id, one.epoch, bool(one.error)) for one in summaries] == [
        (0, 1, False),
        (0, 2, False),
        (1, 1, False),
        (1, 2, True),
    ]
    assert (
        sorted(file.name for file in (run_dir / "gsm8k").iterdir() if file.name.startswith("."))
        == []
    )


def test_what_a_limit_did_is_seen(run_dir: Path) -> None:
    results = run_dir / "gsm8k" / "results.jsonl"
    row = {
        "problem_idx": 0,
        "repeat": 0,
        "status": "scored",
        "reward": 0.0,
        "label": "context_exceeded",
    }
    results.write_bytes(
        dumps(row) + b"\n" + dumps(row | {"problem_idx": 1, "label": "budget"}) + b"\n"
    )
    too_long, spent = _read(Path(export_bundles("inspect", [run_dir / "gsm8k"])[0])).samples
    assert (too_long.output.stop_reason, too_long.metadata["label"]) == (
        "model_length",
        "context_exceeded",
    )
    assert spent.metadata["label"] == "budget"


def test_an_export_that_breaks_leaves_the_old_log(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (path,) = export_bundles("inspect", [run_dir / "gsm8k"])
    old = Path(path).read_bytes()
    (run_dir / "gsm8k" / "results.jsonl").write_bytes(b'{"problem_idx": 0}\nno json\n')
    with pytest.raises(UsageError, match="no row at byte 19"):
        export_bundles("inspect", [run_dir / "gsm8k"])
    assert Path(path).read_bytes() == old
    assert [file.name for file in (run_dir / "gsm8k").iterdir() if file.name.startswith(".")] == []


def test_an_agents_conversation_becomes_messages(run_dir: Path) -> None:
    (path,) = export_bundles("inspect", [run_dir / "agents"])
    messages = _read(Path(path)).samples[0].messages
    assert [message.role for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    text, inline, shown = messages[1].content
    assert (text.text, shown.image) == ("how many files?", "https://pictures.example/1.png")
    assert inline.text.startswith("[image/png inline:")
    assert messages[2].tool_calls[0].function == "bash"
    assert (messages[3].tool_call_id, messages[3].function, messages[3].content) == (
        "c1",
        "bash",
        "a b c",
    )
    assert messages[4].text == "three"
    assert messages[4].content[0].reasoning == "counted"


def test_an_invalid_run_says_so_and_a_run_without_rows_is_an_error(run_dir: Path) -> None:
    from nemo_evaluator.core.files import read_json, write_json

    path = next((run_dir / "gsm8k").glob("eval-*.json"))
    document = read_json(path)
    document["validity"] = {"status": "INVALID", "reasons": ["coverage 0.2"]}
    write_json(path, document)
    assert _read(Path(export_bundles("inspect", [path])[0])).eval.tags == ["INVALID"]
    (run_dir / "gsm8k" / "results.jsonl").unlink()
    log = _read(Path(export_bundles("inspect", [path])[0]))
    assert (log.status, log.error.message) == ("error", "coverage 0.2")


def test_a_bundle_from_elsewhere_is_written_into_the_output_dir(
    run_dir: Path, tmp_path: Path
) -> None:
    (path,) = export_bundles("inspect", [run_dir / "gsm8k"], output_dir=tmp_path / "elsewhere")
    assert Path(path) == tmp_path / "elsewhere" / "gsm8k" / "gsm8k_inspect.eval"


def test_logs_of_two_runs_do_not_overwrite_each_other(run_dir: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(run_dir / "gsm8k", other / "gsm8k")
    both = [run_dir / "gsm8k", other / "gsm8k"]
    beside = [str(folder / "gsm8k_inspect.eval") for folder in both]
    assert export_bundles("inspect", both) == beside
    assert export_bundles("inspect", both, output_dir=tmp_path / "logs") == [
        str(tmp_path / "logs" / run / "gsm8k" / "gsm8k_inspect.eval") for run in ("out", "other")
    ]
    namesake = tmp_path / "deep" / "other"
    shutil.copytree(other, namesake)
    paths = export_bundles("inspect", [*both, namesake / "gsm8k"], output_dir=tmp_path / "more")
    assert len(set(paths)) == 3


def test_odd_rows_are_shown_as_well_as_can_be(odd_run: Path) -> None:
    samples = _read(Path(export_bundles("inspect", [odd_run])[0])).samples
    assert len(samples) == 6
    (call,) = samples[0].messages[0].tool_calls
    assert (call.arguments, bool(call.parse_error)) == ({"arguments": "{broken"}, True)
    # A scorer that is called like the headline does not take its place.
    assert {name: score.value for name, score in samples[4].scores.items()} == {
        "reward": 1.0,
        "scorer:reward": 0.25,
    }


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="no format"):
        get_exporter("inspect", format="xml")


def test_a_log_is_written_from_within_a_running_loop(run_dir: Path) -> None:
    """The suite exports at the end of an async run, on uvloop."""
    import uvloop

    async def main() -> list[str]:
        return export_bundles("inspect", [run_dir / "gsm8k"])

    (path,) = uvloop.run(main())
    assert _read(Path(path)).status == "success"
