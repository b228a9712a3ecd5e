"""The launcher's command lines, as its users and the two skills write them, on real runs."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from nel_support import Nel, Serve

from nemo_evaluator.config import LlamaCppService
from nemo_evaluator.services import start_services
from nemo_evaluator.testing import Say

_CONFIG = """
defaults:
  - execution: local
  - deployment: none
  - _self_
execution:
  output_dir: results
target:
  api_endpoint:
    url: {url}/chat/completions
    model_id: m
    api_key_name: KEY
evaluation:
  nemo_evaluator_config:
    config: {{params: {{parallelism: 2, max_new_tokens: 24, temperature: 0}}}}
  tasks:
    - name: quickstart
    - name: quickstart
      nemo_evaluator_config: {{config: {{params: {{limit_samples: 2}}}}}}
"""
_LIMIT = "++evaluation.nemo_evaluator_config.config.params.limit_samples="


def written(nel: Nel, url: str) -> Nel:
    (nel.folder / "config.yaml").write_text(_CONFIG.format(url=url))
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data"), "KEY": "a-key-that-nobody-else-has"}
    return nel


def invocation(said: str) -> str:
    found = re.search(r"Invocation ID: ([0-9a-f]{8})", said)
    assert found is not None, said
    return found[1]


def test_dry_run_shows_the_plan_and_writes_nothing(nel: Nel, serve: Serve) -> None:
    written(nel, serve("6").url)
    said = nel("run", "--config", "config.yaml", "--dry-run").stdout
    assert "quickstart.0" in said and "quickstart.1" in said
    assert sorted(path.name for path in nel.folder.iterdir() if path.name != "tmp") == [
        "config.yaml"
    ]


def test_a_run_from_start_to_end(nel: Nel, serve: Serve) -> None:
    server = serve("6")
    written(nel, server.url)
    which = invocation(
        nel("run", "--config", "config.yaml", "-t", "quickstart.1", "-o", f"{_LIMIT}3").stdout
    )
    followed = nel("logs", which).stdout
    assert "quickstart" in followed
    (job,) = json.loads(nel("status", which, "--json").stdout)
    assert (
        job["job_id"] == f"{which}.1"
        and job["status"] == "success"
        and job["progress"] == {"done": 2, "total": 2}
    )
    assert f"{which}.1" in nel("status", which[:6].upper()).stdout
    assert Path(job["data"]["output_dir"]).name == "quickstart.1"
    assert "(exists)" in nel("info", f"{which}.1", "--artifacts").stdout
    found = re.fullmatch(rf"{which}.1: (\S+) \(exists\)\n", nel("info", which, "--logs").stdout)
    assert found is not None
    assert [path.name for path in Path(found[1]).glob("*.log")] == ["nel_eval.log"]
    nel.env["COLUMNS"] = "80"
    table, place = nel("status", which).stdout.rstrip().rsplit("\n", 1)
    assert max(map(len, table.splitlines())) <= 80 and "quickstart.1" in table
    assert place.startswith("Location: ") and Path(place.removeprefix("Location: ")).is_dir()
    del nel.env["COLUMNS"]
    assert "services:" in nel("info", which, "--config").stdout
    nel("info", which, "--copy-artifacts", "copied")
    assert (nel.folder / "copied" / f"{which}.1" / "quickstart.1" / "results.jsonl").is_file()
    assert which in nel("ls", "runs", "--limit", "1", "--since", "1d").stdout
    kept = nel.folder / "data" / "nel" / "run_configs" / f"{which}_config.yml"
    assert "${KEY}" in kept.read_text() and "a-key-that" not in kept.read_text()
    assert "is not a valid time" in nel("ls", "runs", "--since", "monday", code=1).stderr
    nel("kill", which, code=1)
    nel("resume", which)
    assert len(server.requests) == 2, "finished answers are not asked for again"


def test_a_run_is_killed_and_resumed(nel: Nel, serve: Serve) -> None:
    written(nel, serve(Say("6", delay=0.5)).url)
    which = invocation(nel("run", "--config", "config.yaml").stdout)
    until = time.monotonic() + 180
    while '"running"' not in nel("status", which, "--json").stdout:
        assert time.monotonic() < until
    assert "cannot be stopped alone" in nel("kill", f"{which}.0", code=1).stderr
    killed = json.loads(nel("kill", which).stdout)
    assert [job["status"] for job in killed] == ["killed", "killed"]
    assert f"{which}.7" not in nel("status", which).stdout


def test_ids_that_nobody_knows_are_errors(nel: Nel) -> None:
    nel.env |= {"XDG_DATA_HOME": str(nel.folder / "data")}
    for words in (
        ("status", "abcd"),
        ("info", "abcd"),
        ("logs", "abcd"),
        ("kill", "abcd"),
        ("resume", "abcd"),
    ):
        assert "abcd" in nel(*words, code=1).stderr
    assert "No runs" in nel("ls", "runs").stdout


def test_convert_writes_a_config_that_runs(nel: Nel, serve: Serve) -> None:
    written(nel, serve("6").url)
    nel("run", "--config", "config.yaml", "--convert", "new.yaml", "-t", "quickstart.1")
    text = (nel.folder / "new.yaml").read_text()
    assert "# target.api_endpoint.url" in text
    nel("config", "check", "new.yaml")
    assert (
        "nothing is overwritten"
        in nel("run", "--config", "config.yaml", "--convert", "new.yaml", code=1).stderr
    )
    nel("eval", "run", "new.yaml", "-o", "out", code=None)
    assert (nel.folder / "out" / "quickstart.1" / "results.jsonl").is_file()


def test_a_config_that_the_assistant_wrote_runs_as_it_is(nel: Nel, serve: Serve) -> None:
    server = serve("4")
    settings = (
        f"services.model.url={server.url}/chat/completions",
        "services.model.model=m",
        "services.model.api_key=null",
    )
    words = [word for setting in settings for word in ("--set", setting)]
    nel(
        "init",
        "--yes",
        "-e",
        "local",
        "-d",
        "none",
        "-m",
        "chat",
        "-b",
        "standard",
        *words,
        "-o",
        "mine.yaml",
    )
    own = "benchmarks=[{name: quickstart, solver: {type: simple, service: model}}]"
    shown = nel("run", "--config", "mine.yaml", "-o", f"++{own}", "--dry-run")
    assert "quickstart" in shown.stdout and server.count == 0
    nel(
        "run",
        "--config",
        "mine.yaml",
        "-o",
        f"++{own}",
        "-o",
        "benchmarks.0.max_problems=3",
        "--wait",
    )
    assert server.count == 3
    assert (
        "-t is for configs of the launcher"
        in nel("run", "--config", "mine.yaml", "-t", "x", code=1).stderr
    )


def test_what_is_wrong_is_told_of_the_fields_that_the_user_wrote(nel: Nel) -> None:
    written(nel, "http://127.0.0.1:9/v1")
    wrong = ["-o", "++evaluation.nemo_evaluator_config.config.params.parallelism=0"]
    for dry in (["--dry-run"], []):
        said = nel(
            "run", "--config", "config.yaml", "-t", "quickstart.1", *wrong, *dry, code=1
        ).stderr
        field = "evaluation.nemo_evaluator_config.config.params.parallelism (benchmarks[0].max_concurrent)"
        assert (
            f"error: 1 problem in config.yaml\n\n  config.yaml: {field}: 0 is out of range" in said
        )
    named = ["-o", "evaluation.tasks.1.name=./nowhere.py:nobody"]
    unknown = nel("run", "--config", "config.yaml", *named, "-n", code=1).stderr
    assert "evaluation.tasks[1]" in unknown and "tmp" not in unknown


def test_a_missing_task_and_a_wrong_override_are_told(nel: Nel) -> None:
    written(nel, "http://127.0.0.1:9/v1")
    assert (
        "quickstart.0, quickstart.1"
        in nel("run", "--config", "config.yaml", "-t", "mmlu", code=1).stderr
    )
    assert (
        "execution.nonsense"
        in nel("run", "--config", "config.yaml", "-o", "execution.nonsense=1", code=1).stderr
    )
    # The launcher ignores an unknown field of its execution, so that it is only a warning.
    misspelt = nel("run", "--config", "config.yaml", "-o", "++execution.output_dirr=x", "-n").stderr
    assert "warned: execution.output_dirr" in misspelt and "did you mean" in misspelt
    refused = ("-o", "++evaluation.taskss=1")
    assert "did you mean" in nel("run", "--config", "config.yaml", *refused, code=1).stderr


@pytest.mark.needs("model", "xllamacpp")
async def test_a_local_run_against_the_embedded_model(nel: Nel, tmp_path: Path) -> None:
    service = LlamaCppService.model_validate(
        {
            "type": "llama_cpp",
            "model": "smollm2-135m",
            "context_size": 512,
            "slots": 2,
            "threads": 1,
        }
    )
    async with start_services(
        SimpleNamespace(services={"m": service}), tmp_path, say=lambda _: None
    ) as running:
        written(nel, running["m"].url)
        key = running["m"].api_key
        assert key is not None
        nel.env["KEY"] = key.reveal()
        nel("run", "--config", "config.yaml", "-o", f"{_LIMIT}4", "-t", "quickstart.0", "--wait")
        (job,) = json.loads(
            nel("status", str(next((nel.folder / "results").iterdir())), "--json").stdout
        )
    assert job["status"] == "success" and job["progress"] == {"done": 4, "total": 4}
