"""``nel eval rescore``: stored answers, other scorers, no request to the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from nel_support import SUMS, Nel, api, bench, rows

from nemo_evaluator.testing import ScriptedServer, Seen

Serve = Callable[..., ScriptedServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda *script, **options: stack.enter_context(ScriptedServer(*script, **options))


@pytest.fixture
def nel(tmp_path: Path) -> Nel:
    (tmp_path / "sums.py").write_text(SUMS.format(size=6))
    return Nel(tmp_path)


def answers(seen: Seen) -> str:
    number = int(seen.prompt.split()[-1].rstrip("?"))
    return f"I say {2 * number} indeed" if number % 2 else str(2 * number)


def newest(folder: Path) -> dict[str, Any]:
    return json.loads(sorted(folder.glob("eval-*.json"))[-1].read_text())


def test_rescoring_asks_nobody_and_changes_only_what_the_scorer_changes(
    nel: Nel, serve: Serve
) -> None:
    model = serve(answers)
    config = nel.config("c.yaml", services={"model": api(model.url)}, benchmarks=[bench("sums.py")])
    nel("eval", "run", config, "-o", "out", "--no-progress")
    asked = model.count
    before = newest(nel.folder / "out" / "sums")
    assert before["benchmark"]["scores"]["pass@1"]["value"] == 0.5

    nel("eval", "rescore", "out", "--no-progress")
    same = newest(nel.folder / "out-rescored" / "sums")
    assert same["benchmark"]["scores"]["pass@1"] == before["benchmark"]["scores"]["pass@1"]
    drop = {"latency_ms", "queue_ms"}
    assert rows(nel.folder / "out-rescored" / "sums", drop) == rows(
        nel.folder / "out" / "sums", drop
    )

    scoring = 'benchmarks.0.scoring={"metrics": [{"type": "scorer", "name": "fuzzy_match"}], "primary": "fuzzy_match"}'
    nel("eval", "rescore", "out", "-O", scoring, "-o", "fuzzy", "--no-progress")
    after = newest(nel.folder / "fuzzy" / "sums")
    assert after["benchmark"]["scores"]["pass@1"]["value"] == 1.0
    assert after["config"]["rescored_from"]["bundle"].startswith("eval-")
    assert after["config"]["rescored_from"]["run_id"]
    assert model.count == asked
    assert newest(nel.folder / "out" / "sums") == before


def test_rescoring_with_a_judge_asks_only_the_judge(nel: Nel, serve: Serve) -> None:
    model, judge = serve(answers), serve('{"score": 4, "reasoning": "fine"}')
    services = {"model": api(model.url), "judge": api(judge.url)}
    config = nel.config("c.yaml", services=services, benchmarks=[bench("sums.py")])
    nel("eval", "run", config, "-o", "out", "--no-progress")
    asked = model.count
    metric = '{"type": "judge", "name": "q", "service": "judge", "canaries": false}'
    scoring = f'benchmarks.0.scoring={{"metrics": [{metric}], "primary": "q"}}'
    nel("eval", "rescore", "out", "-O", scoring, "-o", "judged", "--no-progress")
    assert [row["reward"] for row in rows(nel.folder / "judged" / "sums")] == [0.75] * 6
    assert (model.count, judge.count) == (asked, 6)


def test_rescoring_refuses_another_question(nel: Nel, serve: Serve) -> None:
    model = serve(answers)
    config = nel.config("c.yaml", services={"model": api(model.url)}, benchmarks=[bench("sums.py")])
    nel("eval", "run", config, "-o", "out", "--no-progress")
    asked = model.count
    refused = nel(
        "eval", "rescore", "out", "-O", "services.model.model=other", "--no-progress", code=2
    )
    assert "stored answers do not fit" in refused.stderr
    assert "nel eval run --resume" in refused.stderr
    assert model.count == asked
    nowhere = nel("eval", "rescore", "elsewhere", code=1)
    assert "elsewhere" in nowhere.stderr


def test_a_problem_without_a_stored_answer_fails_after_one_attempt(nel: Nel, serve: Serve) -> None:
    model = serve(answers)
    config = nel.config(
        "c.yaml",
        services={"model": api(model.url)},
        benchmarks=[bench("sums.py", max_problems=4, min_coverage=0)],
    )
    nel("eval", "run", config, "-o", "out", "--no-progress")
    requests = model.count
    nel("eval", "rescore", "out", "-O", "benchmarks.0.max_problems=6", "--no-progress")
    failed = [
        row for row in rows(nel.folder / "out-rescored" / "sums") if row["status"] == "failed"
    ]
    assert len(failed) == 2
    for row in failed:
        assert row["failure"]["message"].startswith("no stored answer fits this problem")
        assert row["attempts"] == 1
    assert model.count == requests
