"""A request survives its file: the same run, wherever and whenever it is read, and no secret on the disk."""

import os
import stat
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.request import (
    RunRequest,
    carried_secrets,
    read_request,
    remove_requests,
    worker_command,
    write_request,
)

KEY = "sk-in-a-request-0123456789"
FULL = RunRequest(
    config_file="c.yaml",
    bench="sums.py",
    model_url="http://127.0.0.1:1/v1",
    model_id="m",
    key_variable="A_KEY",
    judge_url="http://127.0.0.1:2/v1",
    judge_id="j",
    judge_key_variable="J_KEY",
    env_file="a.env",
    model="openai/m",
    only=("1", "ab12"),
    concurrency=5,
    repeats=3,
    max_problems=7,
    system_prompt="Sei kurz: ü\n",
    temperature=0.7,
    max_tokens=9,
    output_dir="o",
    override=("benchmarks.0.repeats=2", "output.dir=x"),
    fresh=True,
    background=True,
    shard="1/4",
    only_shard=2,
    strict_export=True,
    frozen=True,
    allow_fallback=True,
    detach_batch=True,
    as_json=True,
    no_progress=True,
    verbose=True,
    cwd="/somewhere",
    command=("eval", "run", "c.yaml"),
)


def test_nothing_is_lost_on_the_way(tmp_path: Path) -> None:
    same = {field.name for field in fields(FULL) if getattr(FULL, field.name) == field.default}
    assert same == {"resume", "dry_run", "submit", "run_id"}, "give every new field a value here"
    file = write_request(FULL, "r1", tmp_path)
    assert read_request(file) == replace(FULL, run_id="r1")
    assert carried_secrets(FULL) == {}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@given(
    prompt=st.text(max_size=40),
    override=st.lists(st.from_regex(r"a\.b=[^$\x00]*", fullmatch=True), max_size=3),
)
def test_any_text_survives(
    tmp_path_factory: pytest.TempPathFactory, prompt: str, override: list[str]
) -> None:
    request = RunRequest(
        "c.yaml", system_prompt=prompt.encode("utf-8", "ignore").decode(), override=tuple(override)
    )
    assert read_request(write_request(request, "r", tmp_path_factory.mktemp("r"))) == replace(
        request, run_id="r"
    )


@pytest.mark.parametrize(
    "request_",
    [
        RunRequest("c.yaml", override=("a.b=1", f"services.model.api_key={KEY}")),
        RunRequest(bench="b", model_url=f"http://127.0.0.1:1/v1?key={KEY}"),
        RunRequest(bench="b", judge_url=f"http://127.0.0.1:1/v1?key={KEY}"),
    ],
)
def test_a_secret_travels_in_the_environment_only(
    request_: RunRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_request(request_, "r", tmp_path)
    assert KEY not in file.read_text() and KEY not in " ".join(worker_command(file))
    with pytest.raises(UsageError, match="lacks its secrets"):
        read_request(file)
    for name, value in carried_secrets(request_).items():
        monkeypatch.setenv(name, value)
    assert read_request(file) == replace(request_, run_id="r")
    assert KEY not in str(os.environ)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"unheard_of": 1}', '{"repeats": "many"}', '{"override": 5}']
)
def test_a_file_that_is_no_request_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(text)
    with pytest.raises(UsageError, match="cannot be read as a request"):
        read_request(file)
    with pytest.raises(UsageError, match="cannot be read as a request"):
        read_request(tmp_path / "absent.json")


def test_requests_of_earlier_runs_are_removed(tmp_path: Path) -> None:
    old, mine = (write_request(FULL, name, tmp_path) for name in ("r1", "r2"))
    remove_requests(tmp_path, but="r2".__eq__)
    assert not old.exists() and mine.exists()
