"""The canary and the gated run, against the scripted server: what fails is named, and the whole run does not start."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import Say, ScriptedServer

JUDGED = """
from nemo_evaluator import benchmark, needs_judge, scorer

@benchmark(name="judged", dataset=lambda: [{"q": str(n), "a": "x"} for n in range(30)], prompt="{q}", target_field="a")
@scorer
def judged(sample):
    return needs_judge(sample)
"""
LETTERS = """
from nemo_evaluator import benchmark, multichoice_regex, scorer

@benchmark(name="letters", dataset=lambda: [{"q": f"Pick {n}: A or B?", "a": "A"} for n in range(30)], prompt="{q}",
           target_field="a")
@scorer
def letters(sample):
    return multichoice_regex(sample)
"""


def adds(seen: Any) -> str:
    found = re.search(r"(\d+) \+ (\d+)", seen.prompt)
    return str(int(found[1]) + int(found[2])) if found else "ok"


def config(nel: Nel, server: ScriptedServer, name: str, **more: Any) -> str:
    services = {"model": api(server.url, **more.pop("service", {})), **more.pop("services", {})}
    return nel.config(
        "c.yaml", services=services, benchmarks=[bench(name, **more)], output={"dir": "out"}
    )


def gated(nel: Nel, file: str, code: int = 3) -> str:
    said = nel("eval", "run", file, "--gated", "--no-progress", code=code).stderr
    assert "the whole run was not started" in said
    assert not (nel.folder / "out").exists()
    return said


def test_a_canary_that_passes_measures_and_touches_nothing_else(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve(adds)
    file = config(nel, server, sums(40), repeats=3)
    report = json.loads(nel("canary", file, "--limit", "6", "--json").stdout)
    assert (report["verdict"], report["causes"], report["folder"]) == ("PASS", [], "out-canary")
    assert server.count == 6
    assert not (nel.folder / "out").exists()
    assert re.search(
        r"no retries: max_concurrent 32 can stay .*was not tried\); 120 answers",
        report["advice"][0],
    )
    assert report["settings"] == []


def test_gated_runs_dry_run_canary_and_the_whole(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(adds)
    done = nel("eval", "run", config(nel, server, sums(20)), "--gated", "--no-progress")
    order = ["Gate 1 of 2: dry run", "Gate 2 of 2: canary", "canary: PASS"]
    assert [done.stderr.index(words) for words in order] == sorted(
        done.stderr.index(words) for words in order
    )
    assert server.count == 30
    (results,) = (nel.folder / "out").rglob("results.jsonl")
    assert len(results.read_text().splitlines()) == 20


def test_a_wrong_key_stops_it(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(adds, api_key="right-key-0123456789")
    said = gated(nel, config(nel, server, sums(20), service={"api_key": "wrong-key-0123456789"}))
    assert "the key is missing, wrong or not allowed" in said
    assert "wrong-key" not in said


def test_a_judge_that_is_down_stops_it(nel: Nel, serve: Serve) -> None:
    (nel.folder / "judged.py").write_text(JUDGED)
    judge = api("http://127.0.0.1:9/v1", retry={"max_retries": 0})
    scoring = {
        "metrics": [{"type": "judge", "name": "correct", "service": "judge", "max_retries": 0}]
    }
    file = config(nel, serve("x"), "judged.py", services={"judge": judge}, scoring=scoring)
    assert "the judge does not answer" in gated(nel, file)


@pytest.mark.parametrize(
    ("benchmark", "says", "expected"),
    [
        ("sums", Say("I was about to", finish_reason="length"), "of the answers are cut off"),
        ("letters", "I would rather not commit to anything.", "of the answers could not be parsed"),
        ("sums", "", "of the answers are empty"),
    ],
)
def test_answers_that_cannot_be_used_stop_it(
    benchmark: str, says: Any, expected: str, nel: Nel, serve: Serve, sums: Sums
) -> None:
    sums(20)
    (nel.folder / "letters.py").write_text(LETTERS)
    said = gated(nel, config(nel, serve(says), f"{benchmark}.py"))
    assert expected in said
    assert "fix: " in said


def test_a_failing_dry_run_is_the_last(nel: Nel, serve: Serve) -> None:
    server = serve("x")
    nel("eval", "run", config(nel, server, "no_such_bench"), "--gated", code=1)
    assert server.count == 0
    assert not Path(nel.folder, "out-canary").exists()


@pytest.mark.parametrize(("service", "most"), [({"max_concurrent": 3}, 3), ({}, 32)])
def test_the_advice_stays_within_the_limit_of_the_service(
    service: Any, most: int, nel: Nel, serve: Serve, sums: Sums
) -> None:
    file = config(nel, serve(adds), sums(40), service=service)
    (advice,) = json.loads(nel("canary", file, "--limit", "6", "--json").stdout)["advice"]
    assert f"max_concurrent {most} can stay" in advice


@pytest.mark.needs("model", "xllamacpp")
def test_the_advice_counts_the_slots_of_a_server(nel: Nel, sums: Sums) -> None:
    model = {
        "type": "llama_cpp",
        "model": "smollm2-135m",
        "context_size": 512,
        "slots": 2,
        "threads": 1,
    }
    solver = {"type": "simple", "service": "model", "generation": {"max_tokens": 8}}
    benchmarks = [bench(sums(8)) | {"solver": solver}]
    file = nel.config(
        "c.yaml", services={"model": model}, benchmarks=benchmarks, output={"dir": "out"}
    )
    report = json.loads(nel("canary", file, "--limit", "4", "--json", code=None).stdout)
    assert "max_concurrent 2 can stay" in " ".join(report["advice"])


def test_nothing_is_exported(nel: Nel, serve: Serve, sums: Sums) -> None:
    file = nel.config(
        "c.yaml",
        services={"model": api(serve(adds).url)},
        benchmarks=[bench(sums(10))],
        output={"dir": "out", "export": [{"type": "mlflow", "tracking_uri": "sqlite:///m.db"}]},
    )
    assert nel("canary", file, "--limit", "4").stdout.startswith("canary: PASS  (out-canary)")
    assert not Path(nel.folder, "m.db").exists()


def test_retries_lower_the_concurrency_until_there_are_none_and_the_whole_run_keeps_to_it(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    def crowded(seen: Any) -> Say:
        return Say(status=503) if server.in_flight > 2 else Say(adds(seen), delay=0.3)

    server = serve(crowded)
    file = config(nel, server, sums(12), max_concurrent=8)
    report = json.loads(nel("canary", file, "--limit", "8", "--json").stdout)
    assert report["verdict"] == "PASS"
    (setting,) = report["settings"]
    assert setting in ("benchmarks.0.max_concurrent=2", "benchmarks.0.max_concurrent=1")
    level = setting.rpartition("=")[2]
    assert f"start the whole run with max_concurrent: {level} (--gated does)" in report["advice"][0]
    nel("eval", "run", file, "--gated", "--no-progress")
    assert (
        yaml.safe_load((nel.folder / "out" / "full_config.yaml").read_text())["benchmarks"][0][
            "max_concurrent"
        ]
        <= 2
    )


def test_the_settings_are_those_of_the_last_canary_even_if_requests_were_still_retried(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    prompts: list[str] = []

    def refuses_first(seen: Any) -> Say:
        prompts.append(seen.prompt)
        is_first = prompts.count(seen.prompt) % 2
        return Say(status=503) if is_first else Say(adds(seen))

    retry = {"max_retries": 3, "base_delay": 0.05}
    server = serve(refuses_first)
    file = config(nel, server, sums(12), max_concurrent=8, service={"retry": retry})
    done = nel("canary", file, "--limit", "8", "--json")
    report = json.loads(done.stdout)
    # Three canaries, at 8, 4 and 2; 1 was not tried.
    assert report["settings"] == ["benchmarks.0.max_concurrent=2"]
    assert done.stderr.count("the canary runs again with half the concurrency") == 2
    assert any("still had to be retried at max_concurrent 2" in text for text in report["remarks"])


def test_a_broken_config_is_told_whole_as_by_a_run(nel: Nel) -> None:
    services = {"model": api("http://127.0.0.1:9/v1", temprature=1)}
    file = nel.config("c.yaml", services=services, benchmarks=[bench("gsm8kk", repeats="many")])
    told = nel("canary", file, code=1).stderr
    assert "unknown key 'temprature'" in told
    assert "unknown benchmark 'gsm8kk'" in told
    assert told == nel("eval", "run", file, code=1).stderr
