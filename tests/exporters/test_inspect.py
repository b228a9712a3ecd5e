"""Inspect's own reader reads what we write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import UsageError
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
    assert (log.status, log.eval.task, log.eval.model, log.eval.config.epochs) == ("success", "gsm8k", "m-1", 2)
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
    assert log.stats.model_usage["m-1"].total_tokens == 120


def test_an_agents_conversation_becomes_messages(run_dir: Path) -> None:
    (path,) = export_bundles("inspect", [run_dir / "agents"])
    messages = _read(Path(path)).samples[0].messages
    assert [message.role for message in messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert messages[2].tool_calls[0].function == "bash"
    assert (messages[3].tool_call_id, messages[3].function, messages[3].content) == ("c1", "bash", "a b c")
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


def test_a_bundle_from_elsewhere_is_written_into_the_output_dir(run_dir: Path, tmp_path: Path) -> None:
    (path,) = export_bundles("inspect", [run_dir / "gsm8k"], output_dir=tmp_path / "elsewhere")
    assert Path(path) == tmp_path / "elsewhere" / "gsm8k" / "gsm8k_inspect.eval"


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
