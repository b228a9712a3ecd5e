"""The examples of the walkthrough run as written; only the public address is replaced, by a scripted server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.testing import ScriptedServer

ROOT = Path(__file__).parents[2]
PUBLIC = "https://integrate.api.nvidia.com/v1"
KEY = "nvapi-walkthrough-key"
# One transparent pixel.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
pytestmark = pytest.mark.needs("mirror")


def answer(seen: Any) -> str:
    """A judge's grade where a judge is asked, code where code is asked, something plain otherwise."""
    body = json.dumps(seen.body)
    if "judge" in body or "CORRECT" in body:
        grade = "INCORRECT" if "stupid question" in body else "CORRECT"
        return json.dumps({"reason": "fine", "grade": grade})
    if "Python function" in body:
        return "```python\ndef nothing():\n    pass\n```"
    return "The answer is B. 5"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answer) as running:
        yield running


def run(
    server: ScriptedServer, folder: Path, data_mirror: Path, number: str, *words: str
) -> list[dict[str, Any]]:
    """Run an example; returns the bundles it leaves."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    for file in (folder / "examples").rglob("*.yaml"):
        file.write_text(file.read_text().replace(PUBLIC, server.url))
    example = next((folder / "examples" / "configs").glob(f"{number}[_.]*"))
    command = [
        str(Path(sys.executable).with_name("nel")),
        "eval",
        "run",
        str(example.relative_to(folder)),
        *words,
    ]
    environment = {**os.environ, "NVIDIA_API_KEY": KEY, "NEL_DATA_MIRROR": str(data_mirror)}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, (
        f"{example.name}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    written = [
        file for file in folder.rglob("*") if file.is_file() and KEY.encode() in file.read_bytes()
    ]
    assert not written, "the key is in a file"
    assert KEY not in done.stdout + done.stderr
    return [
        json.loads(file.read_text()) for file in sorted(folder.glob("eval_results/*/eval-*.json"))
    ]


@pytest.mark.parametrize("number", ["01", "02", "05", "08", "25"])
def test_example(server: ScriptedServer, tmp_path: Path, data_mirror: Path, number: str) -> None:
    bundles = run(server, tmp_path, data_mirror, number)
    assert bundles
    for bundle in bundles:
        assert bundle["validity"]["status"] == "VALID"
        assert bundle["benchmark"]["coverage"]["scored"] == 5


@pytest.mark.needs("xllamacpp")
@pytest.mark.needs("model")
@pytest.mark.parametrize("number", ["00_quickstart", "00_quickstart_hot"])
def test_the_small_model(
    server: ScriptedServer, tmp_path: Path, data_mirror: Path, number: str
) -> None:
    run(server, tmp_path, data_mirror, number, "--limit", "2")
    (folder,) = (tmp_path / "eval_results").iterdir()
    (row, _) = (folder / "quickstart" / "results.jsonl").read_text().splitlines()
    assert json.loads(row)["model_response"]


def test_pictures(
    server: ScriptedServer, tmp_path: Path, data_mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table as VLMEvalKit publishes them, with a picture in each row."""
    columns = ["index", "question", "A", "B", "answer", "category", "image"]
    rows = [
        [str(number), f"What is in picture {number}?", "a cat", "a dog", "B", "pets", PNG]
        for number in range(6)
    ]
    (tmp_path / "MMBench_DEV_EN.tsv").write_text(
        "\n".join("\t".join(row) for row in [columns, *rows]) + "\n"
    )
    monkeypatch.setenv("LMUData", str(tmp_path))
    (bundle,) = run(server, tmp_path, data_mirror, "13")
    assert bundle["validity"]["status"] == "VALID"
    assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
    assert any(PNG in json.dumps(seen.body) for seen in server.requests)


def test_budget_and_limits(server: ScriptedServer, tmp_path: Path, data_mirror: Path) -> None:
    (bundle,) = run(server, tmp_path, data_mirror, "24", "--limit", "2")
    assert bundle["benchmark"]["coverage"]["scored"] == 2 * 4


@pytest.mark.needs("bwrap")
def test_the_suite(server: ScriptedServer, tmp_path: Path, data_mirror: Path) -> None:
    """Section 10, with the sandbox of this machine in the place of Docker; then again, and nothing is asked."""
    sandbox = ("-O", "sandboxes.humaneval_code={type: local, timeout: 60}")
    names = [
        bundle["benchmark"]["name"] for bundle in run(server, tmp_path, data_mirror, "17", *sandbox)
    ]
    assert sorted(names) == ["gsm8k", "humaneval", "mmlu", "simpleqa"]
    asked = server.count
    run(server, tmp_path, data_mirror, "17", *sandbox, "--resume")
    assert server.count == asked


@pytest.mark.needs("docker")
@pytest.mark.parametrize("number", ["06", "17"])
def test_code_runs_in_docker_as_written(
    server: ScriptedServer, tmp_path: Path, data_mirror: Path, number: str
) -> None:
    """Sections 5 and 10 with the engine and the image that they name."""
    bundles = {
        bundle["benchmark"]["name"]: bundle for bundle in run(server, tmp_path, data_mirror, number)
    }
    assert bundles["humaneval"]["benchmark"]["coverage"]["scored"] == 5
    rows = (tmp_path / "eval_results" / "humaneval" / "results.jsonl").read_text().splitlines()
    assert {json.loads(row)["scoring_details"]["verdict"] for row in rows} <= {
        "wrong",
        "compile_error",
    }
