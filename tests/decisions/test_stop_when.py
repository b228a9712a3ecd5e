"""A run that stops once it is decided, from the config to the decision, with the real command."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from nel_support import SUMS, Nel, api, bench

from nemo_evaluator.testing import ScriptedServer

PROBLEMS = 300


def right_of_ten(share: int) -> Any:
    """Answers that are right on so many of ten problems."""

    def answer(seen: Any) -> str:
        match = re.search(r"How much is (\d+)", seen.prompt)
        assert match is not None
        number = int(match[1])
        return str(2 * number) if number % 10 < share else "no idea"

    return answer


@pytest.fixture
def nel(tmp_path: Path) -> Iterator[Nel]:
    (tmp_path / "sums.py").write_text(SUMS.format(size=PROBLEMS))
    run = Nel(tmp_path)
    with ExitStack() as stack:
        for name, share, rule in (
            ("base", 8, None),
            ("worse", 4, {"decided_against": "base", "max_drop": 0.05}),
            ("narrow", 8, {"interval_width": 0.3}),
        ):
            server = stack.enter_context(ScriptedServer(right_of_ten(share)))
            config = run.config(
                f"{name}.yaml",
                services={"model": api(server.url)},
                benchmarks=[bench("sums.py", max_concurrent=8, **({"stop_when": rule} if rule else {}))],
                output={"dir": name},
            )
            run("eval", "run", config)
        yield run


def bundle(folder: Path) -> Any:
    return json.loads(next(folder.rglob("eval-*.json")).read_text())


def test_it_stops_says_why_and_is_judged_by_the_right_interval(nel: Nel) -> None:
    stopped = bundle(nel.folder / "worse")["stopped"]
    assert stopped["kind"] == "rule"
    assert stopped["reason"].startswith("worse than base by more than 0.05")
    assert stopped["rule"]["saved_share"] > 0.5
    assert stopped["rule"]["difference"]["ci_upper"] < -0.05
    report = json.loads(nel("compare", "base", "worse", "--json", code=1).stdout)
    assert report["verdict"] == "BLOCK"
    assert report["difference"]["ci_method"] == "betting"
    assert not nel("check", "worse", code=None).stdout.startswith("INVALID")
    narrow = bundle(nel.folder / "narrow")["stopped"]
    assert narrow["rule"]["score"]["ci_upper"] - narrow["rule"]["score"]["ci_lower"] <= 0.3
    (nel.folder / "policy.yaml").write_text("version: 1\n")
    assert nel("gate", "base", "worse", "-p", "policy.yaml", code=1).stdout.startswith("NO-GO")
