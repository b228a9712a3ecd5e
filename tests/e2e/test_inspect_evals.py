"""Tasks of inspect_evals, as it is published, give the scores of `inspect eval`; their rows are those of the mirror."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, rows

from nemo_evaluator.core.files import safe_name
from nemo_evaluator.testing import Say, ScriptedServer

TASKS = ("gsm8k", "arc_challenge", "hellaswag")
COUNT = 12
# Every Python of the test finds the hub's datasets in the mirror.
HUB = """
import json, os, pathlib, sys
import datasets, yaml
def load_dataset(path, name=None, split=None, data_dir=None, **_):
    root = pathlib.Path(os.environ["TEST_MIRROR"])
    index = yaml.safe_load((root / "index.yaml").read_text())["datasets"]
    wanted = (path, name or data_dir, split)
    entry = next(e for e in index if (e["dataset"], e.get("config"), e["split"]) == wanted)
    rows = [json.loads(line) for line in (root / entry["file"]).read_text().splitlines()]
    return datasets.Dataset.from_list(rows)
datasets.load_dataset = load_dataset
"""


def answer(seen: Any) -> Say:
    """Right now and then, the same for the same question."""
    text = json.dumps(seen.body["messages"])
    return Say(f"ANSWER: {'ABCD'[len(text) % 4]}" if "ANSWER: $LETTER" in text else "ANSWER: 18")


@pytest.mark.large
@pytest.mark.needs("inspect", "inspect_evals", "mirror")
def test_scores_are_those_of_inspect_eval(nel: Nel, parts_dir: Path, mirror_dir: Path) -> None:
    (nel.folder / "site").mkdir()
    (nel.folder / "site" / "sitecustomize.py").write_text(HUB)
    path = os.pathsep.join(
        [str(nel.folder / "site"), str(parts_dir / "inspect-evals" / "site-packages")]
    )
    nel.env |= {"PYTHONPATH": path, "TEST_MIRROR": str(mirror_dir), "OWN_API_KEY": "k"}
    benches = [
        {"name": f"inspect://inspect_evals/{name}", "max_problems": COUNT, "shuffle_seed": None}
        for name in TASKS
    ]
    with ScriptedServer(answer) as server:
        nel.env["OWN_BASE_URL"] = server.url
        words = [
            str(Path(sys.executable).with_name("inspect")),
            "eval",
            *(f"inspect_evals/{name}" for name in TASKS),
        ]
        words += [
            "--model",
            "openai-api/own/m",
            "--temperature",
            "0",
            "--limit",
            str(COUNT),
            "--log-dir",
            "logs",
        ]
        words += ["--log-format", "json", "--display", "none"]
        done = subprocess.run(
            words, cwd=nel.folder, env=nel.env, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        service = {"type": "api", "url": f"{server.url}/chat/completions", "model": "m"}
        service["generation"] = {"temperature": 0}  # type: ignore[assignment]
        nel.config("c.json", services={"model": service}, benchmarks=benches, output={"dir": "o"})
        nel("eval", "run", "c.json", "--no-progress", timeout=600)
    logs = [json.loads(file.read_text()) for file in (nel.folder / "logs").glob("*.json")]
    assert len(logs) == len(TASKS)
    for log in logs:
        name = log["eval"]["task"].rpartition("/")[2]
        folder = nel.folder / "o" / safe_name(f"inspect://inspect_evals/{name}")
        (bundle,) = folder.glob("eval-*.json")
        scores = json.loads(bundle.read_text())["benchmark"]["scores"]
        expected = {
            f"{s['name']}/{k}": m["value"]
            for s in log["results"]["scores"]
            for k, m in s["metrics"].items()
        }
        assert expected and {key: scores[key]["value"] for key in expected} == expected, name
        # The same verdicts; the log lists samples in an order of its own.
        judged = {"C": 1.0, "I": 0.0}
        own = [judged[next(iter(sample["scores"].values()))["value"]] for sample in log["samples"]]
        got = rows(folder)
        assert sorted(row["reward"] for row in got) == sorted(own) and 0 < sum(own) < COUNT, (
            name,
            own,
        )
