"""The wizard in a real terminal, and the configs of external endpoints run against the scripted server."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml
from click.testing import CliRunner
from nel_support import NEL, Nel, Serve

from nemo_evaluator.assistant.build_config import questions
from nemo_evaluator.cli.main import nel as command
from nemo_evaluator.testing import ScriptedServer

ASKED = [
    "Where does the run happen",
    "How is the model served",
    "Where do results go",
    "What kind of model",
    "What is evaluated",
]


def drive(folder: Path, choices: list[str], values: dict[str, str], *words: str) -> str:
    """Answer at the terminal: the five questions, every value, and yes to the preview; returns what was shown."""
    env = os.environ | {"TERM": "dumb", "NEMO_API_KEY": "k-0123456789", "COLUMNS": "200"}
    child = pexpect.spawn(
        NEL, ["init", *words], cwd=str(folder), env=env, encoding="utf-8", timeout=60
    )
    shown = ""
    for question, choice in zip(ASKED, choices, strict=True):
        child.expect_exact(question)
        child.expect(r"Answer \[[^]]*\]: ")
        child.sendline(choice)
    while True:
        at = child.expect([r"\r\n([\w.]+)\r\n  [^\r\n]*\r\nValue: ", r"Write [^?]+\? \[Y/n\]: "])
        shown += child.before
        if at == 1:
            child.sendline("")
            break
        name = child.match[1]
        child.sendline(next(value for part, value in values.items() if name.endswith(part)))
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, shown + child.before
    return shown + child.before


SLURM = {"hostname": "null", "account": "team", "partition": "batch", "output.dir": "/results"}


@pytest.mark.parametrize(
    ("choices", "values", "expected"),
    [
        (["", "", "", "", ""], {}, {"benchmarks": ["mmlu_pro", "ifeval", "gsm8k"]}),
        (["2", "vllm", "none", "3", "3,5"], SLURM, {"cluster": "slurm", "type": "vllm"}),
        (
            ["local", "5", "2", "chat", "safety"],
            {"tracking_uri": "sqlite:///m.db", "experiment_name": "e"},
            {"type": "trt_llm"},
        ),
    ],
)
def test_it_is_answered_at_a_terminal(
    choices: list[str], values: dict[str, str], expected: dict[str, Any], tmp_path: Path, nel: Nel
) -> None:
    known = {
        "model.url": "http://127.0.0.1:9/v1/chat/completions",
        "model.model": "org/m",
        "api_key": "NEMO_API_KEY",
    }
    shown = drive(tmp_path, choices, known | values)
    (path,) = tmp_path.glob("*.yaml")
    data = yaml.safe_load(path.read_text())
    assert "# `nel canary` measures what the endpoint takes" in shown, (
        "the preview shows the comments"
    )
    names = [one["name"] for one in data["benchmarks"]]
    found = {
        "benchmarks": names,
        "cluster": data.get("cluster", {}).get("type"),
        "type": data["services"]["model"]["type"],
    }
    assert {key: found[key] for key in expected} == expected
    nel.env["NEMO_API_KEY"] = "k-0123456789"
    nel("config", "check", path.name, "--file-only")


def test_an_empty_value_is_asked_for_again_with_a_word(tmp_path: Path) -> None:
    env = os.environ | {"TERM": "dumb", "COLUMNS": "200"}
    words = ["init", "-e", "local", "-d", "vllm", "-x", "none", "-m", "chat", "-b", "safety"]
    child = pexpect.spawn(NEL, words, cwd=str(tmp_path), env=env, encoding="utf-8", timeout=60)
    child.expect_exact("Value: ")
    child.sendline("")
    child.expect_exact("Error: a value is needed")
    child.expect_exact("Value: ")
    child.sendline("org/m")
    child.expect_exact("? [Y/n]: ")
    child.sendline("")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_wrong_answers_are_asked_again_and_no_writes_nothing(tmp_path: Path) -> None:
    env = os.environ | {"TERM": "dumb", "COLUMNS": "200"}
    words = [
        "init",
        "--deployment",
        "none",
        "--export",
        "none",
        "--model-type",
        "chat",
        "-b",
        "safety",
        "--model",
        "vllm/m",
    ]
    child = pexpect.spawn(NEL, words, cwd=str(tmp_path), env=env, encoding="utf-8", timeout=60)
    for wrong in ("mars", "7", "1,2"):
        child.expect_exact("Answer [local]: ")
        child.sendline(wrong)
        child.expect_exact("Error: ")
        child.expect_exact(
            "local, slurm" if wrong != "1,2" else "one of the numbers or words above"
        )
    child.sendline("1")
    child.expect_exact("? [Y/n]: ")
    child.sendline("n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert list(tmp_path.iterdir()) == []


TYPED = {
    "model.url": "URL",
    "model.model": "org/m",
    "api_key": "null",
    "image": "nvcr.io/nim/m:1",
    "tracking_uri": "sqlite:///m.db",
    "experiment_name": "e",
    "project": "p",
    "entity": "team",
}


@pytest.mark.large
@pytest.mark.needs("mirror", "mlflow", "wandb")
def test_every_combination_of_the_five_questions_at_a_terminal(
    nel: Nel, serve: Serve, mirror_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 450: each config passes the check; those of an external endpoint on this machine are run."""
    monkeypatch.setenv("NGC_API_KEY", "k-0123456789")
    nel.env |= {"NEL_DATA_MIRROR": str(mirror_dir), "WANDB_MODE": "offline"}
    server, numbers = (
        serve("The answer is A."),
        [range(1, len(one.words) + 1) for one in questions().values()],
    )
    ran, absent = 0, {}
    for place, chosen in enumerate(itertools.product(*numbers)):
        folder = nel.folder / str(place)
        folder.mkdir()
        words = [
            list(one.words)[n - 1] for one, n in zip(questions().values(), chosen, strict=True)
        ]
        path = "completions" if words[3] == "base" else "chat/completions"
        drive(
            folder, [str(n) for n in chosen], TYPED | SLURM | {"model.url": f"{server.url}/{path}"}
        )
        (file,) = folder.glob("*.yaml")
        done = CliRunner().invoke(command, ["config", "check", str(file), "--file-only"])
        assert done.exception is None, (words, done.output, done.exception)
        if words[:2] == ["local", "none"]:
            asked = server.count
            kept = _run_what_opens(nel, file, absent.setdefault((words[3], words[4]), set()))
            assert server.count >= asked + kept, words
            ran += 1
    assert (place + 1, ran) == (450, 45)


def _run_what_opens(nel: Nel, file: Path, absent: set[str]) -> int:
    """Run a problem of each benchmark that the mirror holds; ``absent`` are those that it does not."""
    data = yaml.safe_load(file.read_text())
    if "sandboxes" in data:
        data["sandboxes"]["code"] = {"type": "local", "timeout": 60.0}
    data["output"]["dir"] = str(file.parent / "out")
    for again in (True, False):
        kept = [one | {"repeats": 1} for one in data["benchmarks"] if one["name"] not in absent]
        assert kept
        file.write_text(yaml.safe_dump(data | {"benchmarks": kept}))
        said = nel("eval", "run", str(file), "--limit", "1", "--no-progress", code=None)
        if said.returncode in (0, 3) or not again:
            break
        numbers = set(re.findall(r"benchmarks\[(\d+)\]\.name: ", said.stderr))
        absent |= {kept[int(number)]["name"] for number in numbers}
        assert numbers, said.stderr
    # 3: a single problem of which nothing could be read.
    assert said.returncode in (0, 3), said.stderr
    return len(kept)


@pytest.mark.needs("mirror")
@pytest.mark.parametrize("model_type", ["base", "reasoning"])
def test_external_endpoints_are_checked_and_run(
    model_type: str, nel: Nel, serve: Serve, mirror_dir: Path
) -> None:
    nel.env["NEL_DATA_MIRROR"] = str(mirror_dir)
    server: ScriptedServer = serve("The answer is A.")
    path = "completions" if model_type == "base" else "chat/completions"
    bundles = ["standard", "math_reasoning", "safety", "multilingual"]
    values = [
        f"services.model.url={server.url}/{path}",
        "services.model.model=m",
        "services.model.api_key=null",
    ]
    flags = [word for value in values for word in ("--set", value)]
    nel("init", "--yes", "-m", model_type, "-b", *bundles, *flags, "-o", "c.yaml")
    said = nel("config", "check", "c.yaml", code=None)
    # What the mirror does not hold cannot be opened; everything else must be fine.
    absent = {int(number) for number in re.findall(r"benchmarks\[(\d+)\]\.name", said.stderr)}
    assert set(re.findall(r"c\.yaml:\d+: (\S+):", said.stderr)) == {
        f"benchmarks[{number}].name" for number in absent
    }
    data = yaml.safe_load((nel.folder / "c.yaml").read_text())
    kept = [one for number, one in enumerate(data["benchmarks"]) if number not in absent]
    assert len(kept) >= 4
    data["benchmarks"] = [one | {"repeats": 1} for one in kept]
    (nel.folder / "c.yaml").write_text(yaml.safe_dump(data))
    nel("eval", "run", "c.yaml", "--limit", "1", "--no-progress")
    assert server.count == len(kept)
