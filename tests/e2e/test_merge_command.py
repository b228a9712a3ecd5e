"""``nel eval merge``: the command, with what only the run's config can give, and killed at any moment."""

import hashlib
import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, api, bench, rows

GRADED = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


def rows():
    return [{{"question": f"How much is {{n}} + {{n}}?", "target": str(2 * n)}} for n in range({size})]


def total(details):
    found = [one["correct"] for one in details]
    return {{"share_right": sum(found) / len(found)}}


@benchmark(name="graded", dataset=rows, prompt="{{question}}", target_field="target", summary=total)
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


def _answer(seen: Any) -> str:
    """Graded by a panel that does not always agree."""
    if "score" in seen.prompt.lower():
        score = 1 + len(seen.prompt) % 3 + (seen.body.get("model") == "n")
        return json.dumps({"reasoning": "so", "score": score})
    return "6"


def _scores(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("eval-*.json")
    scores: dict[str, Any] = json.loads(path.read_text())["benchmark"]["scores"]
    return {name: value for name, value in scores.items() if name != "runtime"}


def _digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(
        b"".join(str(path).encode() + path.read_bytes() for path in files)
    ).hexdigest()


def test_scores_over_all_rows_reports_and_config_are_those_of_one_run(
    nel: Nel, serve: Serve
) -> None:
    server = serve(_answer)
    (nel.folder / "graded.py").write_text(GRADED.format(size=9))
    nel.env["SOME_KEY"] = "k"
    service = api(server.url, api_key="${SOME_KEY}")
    panel = {
        "type": "ensemble_judge",
        "name": "panel",
        "services": ["first", "second"],
        "rubric": "Score it.",
    }
    panel |= {"canaries": False}
    parts = {
        "services": {"model": service, "first": service, "second": service | {"model": "n"}},
        "benchmarks": [bench("graded.py", scoring={"metrics": [panel]})],
        "output": {"report": ["markdown"]},
    }
    config = nel.config("c.yaml", **parts)
    nel("eval", "run", config, "-o", "whole")
    for index in range(2):
        nel("eval", "run", config, "-o", "parts", "--shard", f"{index}/2")
    # Somewhere else, without the key: summing up asks nobody.
    del nel.env["SOME_KEY"]
    folder, nel.folder = nel.folder, nel.folder / "elsewhere"
    nel.folder.mkdir()
    merged = json.loads(nel("eval", "merge", "../parts", "--json").stdout)
    assert [one["benchmark"]["name"] for one in merged] == ["graded"]
    assert _scores(folder / "parts" / "graded") == _scores(folder / "whole" / "graded")
    assert _scores(folder / "parts" / "graded")["share_right"]["value"] == pytest.approx(1 / 9)
    timed = {"latency_ms", "queue_ms", "scoring_details"}
    assert rows(folder / "parts" / "graded", drop=timed) == rows(
        folder / "whole" / "graded", drop=timed
    )
    assert "panel.krippendorff_alpha" in _scores(folder / "parts" / "graded")
    assert "share_right" in (folder / "parts" / "report.md").read_text()
    nel("eval", "merge", "../parts", "-n", "1")
    assert "1 repeat, not 2" in nel("eval", "merge", "../parts", "-n", "2", code=1).stderr
    # The merged folder is a run like any other: its answers can be scored again.
    nel.env["SOME_KEY"] = "k"
    asked = server.count
    nel("eval", "rescore", "../parts", "-o", "again")
    assert server.count == asked
    assert rows(nel.folder / "again" / "graded", drop=timed) == rows(
        folder / "whole" / "graded", drop=timed
    )
    (folder / "parts" / "shard_1").rename(folder / "away")
    assert "shards are missing: 1" in nel("eval", "merge", "../parts", code=3).stdout


def test_a_benchmark_file_that_is_gone_leaves_its_own_scores_out_and_says_so(
    nel: Nel, serve: Serve
) -> None:
    server = serve("6")
    (nel.folder / "graded.py").write_text(GRADED.format(size=3))
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[bench("graded.py")]
    )
    nel("eval", "run", config, "-o", "parts", "--shard", "0/1")
    (nel.folder / "graded.py").unlink()
    done = nel("eval", "merge", "parts")
    assert "not computed over all shards: share_right" in done.stdout
    assert "graded.py" in done.stderr


def test_a_killed_merge_leaves_the_old_result_or_none_and_the_shards_as_they_were(
    nel: Nel, serve: Serve
) -> None:
    server = serve("6")
    (nel.folder / "graded.py").write_text(GRADED.format(size=2000))
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[bench("graded.py")]
    )
    nel("eval", "run", config, "-o", "parts", "--shard", "0/1", "--no-progress")
    root = nel.folder / "parts"
    shard = _digest(root / "shard_0")
    started = time.monotonic()
    nel("eval", "merge", "parts")
    took = time.monotonic() - started
    whole = _digest(root / "graded")
    for share in (0.5, 0.7, 0.9):
        process = nel.start("eval", "merge", "parts")
        time.sleep(took * share)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        bundles = list((root / "graded").glob("eval-*.json"))
        if bundles:
            kept = {
                path.name: path.read_bytes()
                for path in (root / "graded").iterdir()
                if path.is_file()
            }
            assert len(kept["results.jsonl"].splitlines()) == 2000
    nel("eval", "merge", "parts")
    assert _digest(root / "graded") == whole
    assert _digest(root / "shard_0") == shard
