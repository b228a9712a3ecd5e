"""``container://``: a harness in an image, through our proxy; its failures are told apart and never a zero."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness_image import build_harness
from nel_support import Nel, Serve, api, command_lines_with, rows

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import ConfigError

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_harness(tmp_path_factory.mktemp("harness") / "image")


def doubles(seen: Any) -> str:
    """Right for even numbers, wrong for odd ones."""
    n = int(seen.body["messages"][-1]["content"].split()[3])
    return str(2 * n + n % 2)


def run(
    nel: Nel, url: str, image: str, *words: str, code: int = 0, solver: Any = (), **more: Any
) -> str:
    benchmark = {
        "name": f"container://{image}#sums",
        "id": "sums",
        "solver": {"type": "container", "service": "model", **dict(solver)},
        "sandbox": {"type": "docker"},
        **more,
    }
    config = nel.config(
        "c.yaml", services={"model": api(url)}, benchmarks=[benchmark], output={"dir": "out"}
    )
    done = nel("eval", "run", config, *words, code=code)
    return done.stdout + done.stderr


def test_rows_scores_and_counts(nel: Nel, serve: Serve, image: str) -> None:
    server = serve(doubles, api_key="sk-upstream")
    nel.env["UPSTREAM"] = "sk-upstream"
    benchmark = {
        "name": f"container://{image}#sums",
        "solver": {"type": "container", "service": "model", "env_vars": {"EXTRA": "yes"}},
        "sandbox": {"type": "docker"},
        "max_problems": 4,
    }
    service = api(server.url, api_key="${UPSTREAM}")
    config = nel.config(
        "c.yaml", services={"model": service}, benchmarks=[benchmark], output={"dir": "out"}
    )
    nel("eval", "run", config)
    (folder,) = (path.parent for path in (nel.folder / "out").rglob("results.jsonl"))
    got = rows(folder)
    assert [(row["expected_answer"], row["reward"]) for row in got] == [
        ("0", 1.0),
        ("2", 0.0),
        ("4", 1.0),
        ("6", 0.0),
    ]
    assert got[1]["prompt"] == "How much is 1 + 1?" and got[1]["extracted_answer"] == "3"
    scores = json.loads(next(folder.glob("eval-*.json")).read_text())["benchmark"]["scores"]
    assert (
        scores["sums/accuracy/micro"]["value"] == 0.5
        and scores["sums/accuracy/micro.count"]["value"] == 4
    )
    log = (folder / "batch" / "container.log").read_text()
    assert "4 samples, extra: yes" in log
    everything = b"".join(
        path.read_bytes() for path in (nel.folder / "out").rglob("*") if path.is_file()
    )
    assert b"sk-upstream" not in everything and len(server.requests) == 4
    nel("eval", "run", config, "--resume")
    assert len(server.requests) == 4


def test_shell_before_and_after_the_harness(nel: Nel, serve: Serve, image: str) -> None:
    """What it exports reaches the harness; what comes after runs also when the harness fails, and hides no failure."""
    shell = {"pre_cmd": 'export EXTRA="$(echo of the shell)"', "post_cmd": "echo 'after it'; true"}
    server = serve(doubles)
    run(nel, server.url, image, max_problems=2, solver=shell)
    (log,) = (nel.folder / "out").rglob("container.log")
    assert log.read_text().splitlines()[-1] == "after it"
    assert "2 samples, extra: of the shell" in log.read_text()
    said = run(nel, server.url, image, "--fresh", code=2, solver=shell, params={"mode": "fail"})
    assert "failed with exit code 1" in said
    assert "after it" in next((nel.folder / "out" / "sums").rglob("container.log")).read_text()


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("fail", ("failed with exit code 1", "dataset not found")),
        ("half", ("results.yml is cut off",)),
        ("halfrows", ("output.jsonl: line 4 is cut off",)),
    ],
)
def test_what_went_wrong_is_told_apart(
    nel: Nel, serve: Serve, image: str, mode: str, told: tuple[str, ...]
) -> None:
    said = run(nel, serve(doubles).url, image, code=2, params={"mode": mode})
    assert all(words in said for words in told), said
    assert not list(Path(nel.folder, "out").rglob("results.jsonl"))


def test_a_container_that_hangs_is_ended(nel: Nel, serve: Serve, image: str) -> None:
    said = run(nel, serve(doubles).url, image, code=2, params={"mode": "hang"}, timeout=6)
    assert "did not finish within 6 s" in said and "harness starts" in said
    assert not command_lines_with("eval-factory run_eval")


def test_a_dead_model_is_the_cause(nel: Nel, serve: Serve, image: str) -> None:
    said = run(nel, "http://127.0.0.1:9/v1", image, code=2, params={"mode": "rows"})
    assert "127.0.0.1:9" in said and "HTTPError" not in said.splitlines()[-1]


def test_a_harness_without_rows_gives_its_score(nel: Nel, serve: Serve, image: str) -> None:
    params = {"mode": "norows", "limit_samples": 2}
    run(nel, serve(doubles).url, image, params=params, repeats=2)
    (row,) = rows(nel.folder / "out" / "sums")
    assert row["reward"] == 0.5 and row["scoring_details"]["samples"] == 2
    assert row["scoring_details"]["scored_by"].startswith("the harness in ")
    (bundle,) = (nel.folder / "out" / "sums").glob("eval-*.json")
    document = json.loads(bundle.read_text())
    assert document["validity"]["status"] == "VALID"
    scores = document["benchmark"]["scores"]
    assert (scores["mean_reward"]["n"], scores["mean_reward"]["ci_lower"]) == (2, None)
    # The proxy saw two calls; the one row stands for both.
    assert scores["runtime"]["total_tokens"] > 0 and "summary" not in scores
    assert sum(scores["runtime"]["finish_reason_counts"].values()) == 2


def test_a_container_runs_in_docker_unless_the_config_says_where() -> None:
    solver = {"type": "container", "service": "model"}
    parts = {"name": "container://i#t", "solver": solver}
    plain, told = (
        parse_eval_config(
            {"services": {"model": api("http://127.0.0.1:9/v1")}, "benchmarks": [parts | more]}
        )
        for more in ({}, {"sandbox": {"type": "apptainer"}})
    )
    assert plain.benchmarks[0].sandbox.model_dump(include={"type", "network"}) == {
        "type": "docker",
        "network": "bridge",
    }
    assert told.benchmarks[0].sandbox.type == "apptainer"
    with pytest.raises(ConfigError, match="needs a sandbox that runs images"):
        parse_eval_config(
            {
                "services": {"model": api("http://127.0.0.1:9/v1")},
                "benchmarks": [parts | {"sandbox": {"type": "none"}}],
            }
        )
