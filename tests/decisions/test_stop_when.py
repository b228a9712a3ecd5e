"""A run that stops once it is decided, from the config to the decision, with the real command."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nel_support import SUMS, Nel, api, bench, rows

from nemo_evaluator.config import BenchmarkConfig
from nemo_evaluator.config.gate_policy import GatePolicy
from nemo_evaluator.decisions import compare_runs, gate_runs
from nemo_evaluator.decisions.gate.report import Status
from nemo_evaluator.decisions.stop_rule import build_stop_rule
from nemo_evaluator.testing import Say, ScriptedServer

PROBLEMS = 300
TIMING = frozenset({"latency_ms", "queue_ms", "attempts"})
AGAINST = {"decided_against": "base", "max_drop": 0.05}


def number_of(seen: Any) -> int:
    match = re.search(r"How much is (\d+)", seen.prompt)
    assert match is not None
    return int(match[1])


def right_of_ten(share: int, delay: Callable[[bool], float] | None = None) -> Any:
    """Answers that are right on so many of ten problems."""

    def answer(seen: Any) -> Any:
        number = number_of(seen)
        good = number % 10 < share
        said = str(2 * number) if good else "no idea"
        return said if delay is None else Say(said, delay=delay(good))

    return answer


class Runs:
    """Runs of the sums, each in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.nel = Nel(folder)
        (folder / "sums.py").write_text(SUMS.format(size=PROBLEMS))
        (folder / "policy.yaml").write_text("version: 1\n")

    def run(
        self, name: str, script: Any, rule: Any = None, *words: str, code: int = 0, **more: Any
    ) -> tuple[str, ScriptedServer]:
        with ScriptedServer(script) as server:
            config = self.config(name, server, rule, **more)
            done = self.nel("eval", "run", config, "--no-progress", *words, code=code)
        return done.stdout + done.stderr, server

    def config(self, name: str, server: ScriptedServer, rule: Any = None, **more: Any) -> str:
        one = bench(
            "sums.py", **({"max_concurrent": 8} | more), **({"stop_when": rule} if rule else {})
        )
        return self.nel.config(
            f"{name}.yaml",
            services={"model": api(server.url)},
            benchmarks=[one],
            output={"dir": name},
        )

    def bundle(self, name: str) -> Any:
        return json.loads(next((self.nel.folder / name).rglob("eval-*.json")).read_text())

    def rule(self, name: str) -> Any:
        return self.bundle(name)["stopped"]["rule"]

    def rows(self, name: str) -> list[dict[str, Any]]:
        return rows(self.nel.folder / name / "sums", drop=TIMING)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    made = Runs(tmp_path_factory.mktemp("stop"))
    made.run("base", right_of_ten(8))
    made.said, _ = made.run("worse", right_of_ten(4), AGAINST)  # type: ignore[attr-defined]
    made.run("never", right_of_ten(8), {"interval_width": 0.01})
    return made


def test_it_stops_says_why_and_is_judged_by_the_right_interval(runs: Runs) -> None:
    stopped = runs.bundle("worse")["stopped"]
    assert stopped["kind"] == "rule"
    assert stopped["reason"] == "worse than base by more than 0.05: proved"
    assert stopped["rule"]["saved_share"] > 0.5
    assert stopped["rule"]["difference"]["ci_upper"] < -0.05
    nel = runs.nel
    report = json.loads(nel("compare", "base", "worse", "--json", code=1).stdout)
    assert (report["verdict"], report["difference"]["ci_method"]) == ("BLOCK", "betting")
    assert report["difference"]["ci_upper"] == pytest.approx(
        stopped["rule"]["difference"]["ci_upper"], abs=1e-6
    )
    gate = json.loads(nel("gate", "base", "worse", "-p", "policy.yaml", "--json", code=1).stdout)
    assert gate["verdict"] == "NO-GO"
    assert gate["benchmarks"][0]["ci_method"] == "betting"


def test_everyone_who_reports_says_so(runs: Runs) -> None:
    nel, used = runs.nel, runs.rule("worse")["problems"]
    words = f"stopped after {used} of 300 problems"
    assert words in runs.said  # type: ignore[attr-defined]
    nel("eval", "report", "worse", "-f", "html", "-o", "report.html")
    said = {
        "markdown": nel("eval", "report", "worse").stdout,
        "html": (nel.folder / "report.html").read_text(),
        "json": nel("eval", "report", "worse", "-f", "json").stdout,
        "compare": nel("compare", "base", "worse", code=1).stdout,
        "gate": nel("gate", "base", "worse", "-p", "policy.yaml", "--json", code=1).stdout,
    }
    for where, text in said.items():
        assert words in text, where
        assert "saved" in text, where
    assert nel("check", "worse").stdout.startswith("VALID")
    assert "not stopped" in nel("eval", "report", "never").stdout


def test_a_run_that_was_not_stopped_pays_for_the_looks_all_the_same(runs: Runs) -> None:
    never = runs.bundle("never")
    assert "kind" not in never["stopped"]
    assert never["benchmark"]["scores"]["pass@1"]["ci_method"] == "wilson+betting"
    base = runs.bundle("base")["benchmark"]["scores"]["pass@1"]
    width = [
        score["ci_upper"] - score["ci_lower"]
        for score in (base, never["benchmark"]["scores"]["pass@1"])
    ]
    assert width[0] < width[1] < 1.4 * width[0], (
        "the last look costs something, not as much as the sequence"
    )
    report = json.loads(runs.nel("compare", "base", "never", "--json").stdout)
    assert report["difference"]["ci_method"].endswith("+betting")
    gate = json.loads(
        runs.nel("gate", "base", "never", "-p", "policy.yaml", "--json", code=None).stdout
    )
    assert gate["benchmarks"][0]["ci_method"].endswith("+betting")


def test_killed_and_resumed_it_ends_in_the_same_place(runs: Runs) -> None:
    rule = {"interval_width": 0.2}
    runs.run("calm", right_of_ten(7), rule, max_concurrent=1)
    rng, used = random.Random(1), runs.rule("calm")["problems"]
    # Right answers are slow: whoever counted as they arrive would see the wrong ones first.
    script = right_of_ten(7, lambda good: rng.random() * (0.08 if good else 0.002))
    nel = runs.nel
    with ScriptedServer(script) as server:
        config = runs.config("killed", server, rule, max_concurrent=24)
        for share in (0.3, 0.6):
            process = nel.start("eval", "run", config, "--resume", "--no-progress")
            deadline = time.monotonic() + 180
            while (
                server.count < share * used
                and process.poll() is None
                and time.monotonic() < deadline
            ):
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL, "it ended before it could be killed"
        nel("eval", "run", config, "--resume", "--no-progress")
        calm, killed = runs.bundle("calm"), runs.bundle("killed")
        assert killed["stopped"]["reason"] == calm["stopped"]["reason"]
        assert runs.rule("killed")["problems"] == used
        assert runs.rows("killed") == runs.rows("calm")
        assert killed["benchmark"]["scores"]["pass@1"] == calm["benchmark"]["scores"]["pass@1"]
        # Beyond what was used: the slots' worth at the stop, and twice at a kill.
        assert server.count <= used + 3 * 4 * 24
        before = server.count
        nel("eval", "run", config, "--resume", "--no-progress")
        assert server.count == before, "a decided run asks nothing more"
    assert nel("check", "killed").stdout.startswith("VALID")


def test_rescoring_keeps_to_what_the_rule_left(runs: Runs) -> None:
    runs.nel("eval", "rescore", "worse", "-o", "again", "--no-progress")
    again = runs.bundle("again")
    assert again["validity"]["status"] == "VALID"
    assert again["n_results"] == runs.bundle("worse")["n_results"]
    assert again["stopped"]["kind"] == "rule"
    assert "difference" not in again["stopped"]["rule"], "that was said of the scores of that time"
    assert (
        again["benchmark"]["scores"]["pass@1"]
        == runs.bundle("worse")["benchmark"]["scores"]["pass@1"]
    )


def test_a_baseline_with_other_repeats(runs: Runs) -> None:
    runs.run("many", right_of_ten(8), repeats=2)
    runs.run("few", right_of_ten(3), {"decided_against": "many", "max_drop": 0.05}, repeats=3)
    rule = runs.rule("few")
    assert rule["decision"] == "worse than many by more than 0.05: proved"
    assert len(runs.rows("few")) == 3 * rule["problems"]
    assert (
        json.loads(runs.nel("compare", "many", "few", "--json", code=1).stdout)["verdict"]
        == "BLOCK"
    )


def test_a_baseline_as_a_task_folder(runs: Runs) -> None:
    runs.run("direct", right_of_ten(4), AGAINST | {"decided_against": "base/sums"})
    assert runs.rule("direct")["decision"] == "worse than base/sums by more than 0.05: proved"


def test_a_baseline_on_other_problems_decides_nothing(runs: Runs) -> None:
    folder = runs.nel.folder
    shutil.copytree(folder / "base", folder / "other")
    (folder / "other" / "sums" / "SHA256SUMS").unlink()
    results = folder / "other" / "sums" / "results.jsonl"
    results.write_text(
        re.sub(r'"problem_hash":"[0-9a-f]+"', '"problem_hash":"00"', results.read_text())
    )
    said, server = runs.run("stranger", right_of_ten(4), AGAINST | {"decided_against": "other"})
    assert server.count == PROBLEMS
    assert "no problem of this run is in other: nothing to decide" in " ".join(said.split())
    assert runs.rule("stranger")["difference"]["paired"] == 0


@pytest.mark.parametrize(
    ("folder", "spoil", "words"),
    [
        ("nowhere", None, "nowhere does not exist"),
        ("hollow", lambda path: path.mkdir(), "has no finished benchmark"),
        (
            "sick",
            lambda path: _edit(path, validity={"status": "INVALID", "reasons": ["too few"]}),
            "too few",
        ),
        ("renamed", lambda path: _edit(path, name="products"), "has no benchmark 'sums'"),
        (
            "rowless",
            lambda path: (_edit(path), (path / "sums" / "results.jsonl").write_text("")),
            "no scored row",
        ),
        (
            "torn",
            lambda path: (_edit(path), next(path.rglob("eval-*")).write_text("{")),
            "cannot read",
        ),
    ],
)
def test_a_baseline_that_is_none_is_refused_before_anything_is_asked(
    runs: Runs, folder: str, spoil: Any, words: str
) -> None:
    if spoil is not None:
        spoil(runs.nel.folder / folder)
    against = AGAINST | {"decided_against": folder}
    said, server = runs.run(f"against-{folder}", right_of_ten(4), against, code=_REFUSED[folder])
    assert words in said
    assert server.count == 0
    if _REFUSED[folder] == 1:
        assert (
            words in runs.nel("eval", "run", f"against-{folder}.yaml", "--dry-run", code=1).stderr
        )


# What only the benchmark itself can tell is found when its turn comes; the rest before any service starts.
_REFUSED = {"nowhere": 1, "hollow": 1, "torn": 1, "sick": 2, "renamed": 2, "rowless": 2}


def _edit(path: Path, name: str | None = None, **changes: Any) -> None:
    shutil.copytree(path.with_name("base"), path)
    (path / "sums" / "SHA256SUMS").unlink()
    bundle = next(path.rglob("eval-*.json"))
    found = json.loads(bundle.read_text()) | changes
    if name is not None:
        found["benchmark"]["name"] = name
    bundle.write_text(json.dumps(found))


def test_no_run_is_its_own_baseline(runs: Runs) -> None:
    runs.run("mirror", right_of_ten(8))
    said, server = runs.run(
        "mirror", right_of_ten(8), AGAINST | {"decided_against": "mirror"}, code=2
    )
    assert "is the folder of this run itself" in said
    assert server.count == 0
    assert runs.bundle("mirror")["n_results"] == PROBLEMS, "and it is still there"


def test_no_rule_in_a_shard(runs: Runs) -> None:
    said, server = runs.run(
        "shard", right_of_ten(8), {"interval_width": 0.2}, "--shard", "0/2", code=1
    )
    assert "stop_when is not for shards" in said
    assert server.count == 0


def test_failures_cannot_decide(runs: Runs) -> None:
    """One in twenty fails; were they left out, no difference would be proved."""

    def script(seen: Any) -> Any:
        number = number_of(seen)
        return (
            Say(status=400)
            if number % 20 == 3
            else str(2 * number)
            if number % 10 < 8
            else "no idea"
        )

    said, _ = runs.run("holes", script, AGAINST, min_coverage=0.9)
    rule = runs.rule("holes")
    assert rule["failed_answers"] == runs.bundle("holes")["benchmark"]["coverage"]["failed"] > 0
    assert not rule["stopped"], said
    assert rule["difference"]["ci_lower"] < -0.05


def test_the_gate_asks_more_of_runs_with_a_rule(write_run: Any, tmp_path: Path) -> None:
    """A hundred equal answers prove a drop within 0.06; seen by a rule all along they do not, at the end just so."""
    rewards = [1.0] * 60 + [0.0] * 40
    write_run("base/toy", rewards)
    proved = {}
    for name, stopped in (
        ("plain", None),
        ("ended", {"rule": {"stopped": False}}),
        ("stopped", {"kind": "rule", "reason": "narrow enough", "rule": {"stopped": True}}),
    ):
        write_run(f"{name}/toy", rewards, **({"stopped": stopped} if stopped else {}))
        policy = GatePolicy.model_validate({"version": 1, "defaults": {"max_drop": 0.06}})
        (entry,) = gate_runs(tmp_path / "base", tmp_path / name, policy).benchmarks
        assert entry.p_pass is not None
        proved[name] = entry.status, entry.p_pass
    assert [status for status, _ in proved.values()] == [
        Status.PASS,
        Status.PASS,
        Status.INSUFFICIENT,
    ]
    assert proved["plain"][1] < proved["ended"][1] < proved["stopped"][1]


def test_what_would_settle_it_allows_for_the_looks(write_run: Any, tmp_path: Path) -> None:
    before, after = [1.0] * 60 + [0.0] * 40, [1.0] * 52 + [0.0] * 34 + [1.0] * 6 + [0.0] * 8
    write_run("base/toy", before)
    needed = []
    for name, stopped in (
        ("plain", None),
        ("ended", {"rule": {"stopped": False}}),
        ("stopped", {"kind": "rule", "rule": {"stopped": True}}),
    ):
        write_run(f"{name}/toy", after, **({"stopped": stopped} if stopped else {}))
        policy = GatePolicy.model_validate({"version": 1, "defaults": {"max_drop": 0.07}})
        (entry,) = gate_runs(tmp_path / "base", tmp_path / name, policy).benchmarks
        assert entry.remedy is not None
        needed.append(entry.remedy.problems_needed)
    assert needed[0] < needed[1] < needed[2]


@pytest.mark.parametrize(("seed", "warned"), [(42, False), (7, True)])
def test_two_stopped_runs_in_different_orders(write_run: Any, seed: int, warned: bool) -> None:
    stopped = {"kind": "rule", "rule": {"stopped": True}}
    one, two = (
        write_run(name, [1.0, 0.0] * 50, stopped=stopped, config={"shuffle_seed": order})
        for name, order in (("a", 42), ("b", seed))
    )
    assert any("in different orders" in line for line in compare_runs(one, two).warnings) is warned


def test_the_rule_knows_the_floor_of_its_benchmark(tmp_path: Path) -> None:
    config = BenchmarkConfig.model_validate(
        bench(
            "sums",
            min_coverage=0.8,
            stop_when={"interval_width": 0.1, "confidence": 0.9, "min_problems": 7},
        )
    )
    rule = build_stop_rule(config, "sums", tmp_path)
    assert rule is not None
    assert (rule.min_coverage, rule.confidence, rule.min_problems, rule.interval_width) == (
        0.8,
        0.9,
        7,
        0.1,
    )
