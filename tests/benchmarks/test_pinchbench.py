"""PinchBench: its task files become errands, graded in a sandbox by their own code, by a judge, or by both."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any, cast

import pytest
from nel_support import Nel, api, rows

from nemo_evaluator.benchmarks._pinchbench_tasks import REF, SOURCE, files_of
from nemo_evaluator.benchmarks.pinchbench import grade, parse_judge, transcript
from nemo_evaluator.core.errors import JudgeError, ScorerError, SeedError, UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.environments import get_environment
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.testing import Say, ScriptedServer

AGENT = Path(__file__).parents[1] / "support" / "shell_agent.sh.j2"
TASK = """---
id: {id}
name: Task {id}
category: files
grading_type: {kind}
timeout_seconds: 100
workspace_files: {files}
{more}---

# {id}

## Prompt

Do the {kind} errand.

## Expected Behavior

It is done.

## Grading Criteria

- [ ] Done

## Automated Checks

```python
{code}
```

## LLM Judge Rubric

Done or not.
"""
# Half for what was left, half for what was done.
CODE = """
def grade(transcript: list, workspace_path: str) -> dict:
    from pathlib import Path
    said = [part.get("text", "") for event in transcript if event["message"]["role"] == "assistant"
            for part in event["message"]["content"]]
    left = Path(workspace_path, "out.txt")
    return {"left": float(left.exists() and left.read_text() == "alpha"), "said": float("cp" in " ".join(said))}
"""


def checkout() -> dict[str, str]:
    """The files of a repository with a task of each kind, and the order of its manifest."""
    inline = json.dumps([{"path": "in.txt", "content": "alpha"}])
    asset = json.dumps(
        [{"source": "a.bin", "dest": "data/b.bin"}, {"path": "in.txt", "content": "alpha"}]
    )
    weights = "grading_weights: {automated: 0.25, llm_judge: 0.75}\n"
    # The first and the last are asked in the same words, side by side.
    made = {
        "task_1_code": ("automated", inline, CODE, ""),
        "task_2_judge": ("llm_judge", asset, "", ""),
        "task_3_both": ("hybrid", inline, CODE, weights),
        "task_4_odd": (
            "automated",
            inline,
            "def grade(transcript, workspace_path): return 1 / 0",
            "",
        ),
        "task_5_broken": (
            "automated",
            inline,
            "def grade(transcript, workspace_path): import no_such",
            "",
        ),
    }
    files = {
        f"tasks/{name}.md": TASK.format(id=name, kind=kind, files=given, code=code, more=more)
        for name, (kind, given, code, more) in made.items()
    }
    order = ["task_3_both", "task_1_code"]
    return {
        **files,
        "tasks/manifest.yaml": json.dumps({"run_first": order}),
        "assets/a.bin": "\0bytes",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in checkout().items():
        path = tmp_path / "skill" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "skill"


def say(seen: Any) -> Say:
    text = json.dumps(seen.body["messages"])
    if "by a rubric" not in text:
        return Say("cp in.txt out.txt")
    wrong = "green, violet" in text
    # The judge sees what was done and what was left, texts only.
    assert "primary colours" in text or (
        "./out.txt" in text and "alpha" in text and "cp in.txt" in text
    ), text
    assert ("data/b.bin" in text) == ("(not text)" in text)
    return Say(
        json.dumps({"scores": {"done": 0.0 if wrong else 0.8}, "total": 0.0 if wrong else 0.8})
    )


@pytest.mark.needs("bwrap")
def test_each_kind_of_task_is_graded_as_it_says(nel: Nel, folder: Path) -> None:
    (nel.folder / "agent").mkdir()
    (nel.folder / "agent" / "run.sh.j2").write_text(AGENT.read_text())
    bench = {
        "name": "pinchbench",
        "params": {"dataset": str(folder)},
        "solver": {"type": "harbor", "service": "model", "agent": str(nel.folder / "agent")},
        "sandbox": {"type": "local"},
        "scoring": {
            "metrics": [{"type": "judge", "name": "pinchbench_rubric", "service": "judge"}]
        },
        "skip_failed": True,
    }
    with ScriptedServer(say) as server:
        services = {"model": api(server.url), "judge": api(server.url, model="judge")}
        nel.config("c.yaml", services=services, benchmarks=[bench], output={"dir": "out"})
        nel("eval", "run", "c.yaml", code=None, timeout=120)
        asked = [seen for seen in server.requests if "primary colours" not in seen.prompt]
        nel("eval", "run", "c.yaml", "--resume", code=None, timeout=120)
        # Nothing is asked or graded again that was graded.
        assert [seen for seen in server.requests if "primary colours" not in seen.prompt] == asked
    found = {row["metadata"]["task_id"]: row for row in rows(nel.folder / "out" / "pinchbench")}
    assert list(found) == [
        "task_3_both",
        "task_1_code",
        "task_2_judge",
        "task_4_odd",
        "task_5_broken",
    ]
    told = {name: row.get("failure") or round(row["reward"], 6) for name, row in found.items()}
    broken = told.pop("task_5_broken")
    # Code that breaks over what was left is a zero with its reason; code that cannot run has graded nothing.
    assert told == {"task_1_code": 1.0, "task_2_judge": 0.8, "task_3_both": 0.85, "task_4_odd": 0.0}
    assert "ZeroDivisionError" in found["task_4_odd"]["scoring_details"]["grading_raised"]
    assert broken["cause"] == "scorer" and "no_such" in broken["message"]
    assert found["task_1_code"]["scoring_details"]["criterion_said"] == 1.0
    assert "grading_code" not in found["task_1_code"]["metadata"]


def test_a_mirror_made_on_a_connected_machine_serves_another(nel: Nel) -> None:
    url = f"{SOURCE}/archive/{REF}.zip"
    nel.env["NEL_CACHE_DIR"] = str(nel.folder / "cache")
    fetched = (
        nel.folder / "cache" / "datasets" / "url" / safe_name(url.rsplit("/", 1)[0]) / f"{REF}.zip"
    )
    fetched.parent.mkdir(parents=True)
    with zipfile.ZipFile(fetched, "w") as archive:
        for name, text in checkout().items():
            archive.writestr(f"skill-{REF}/{name}", text)
    nel("data", "mirror", "pinchbench", "--to", "mirror")
    nel.env |= {
        "NEL_CACHE_DIR": str(nel.folder / "empty"),
        "NEL_DATA_MIRROR": str(nel.folder / "mirror"),
    }
    shown = json.loads(nel("show", "pinchbench", "--index", "2", "--json").stdout)
    assert shown["size"] == 5 and shown["metadata"]["task_id"] == "task_2_judge"


def test_what_cannot_be_had_is_said_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("NEL_OFFLINE", "1")
    monkeypatch.setenv("NEL_CACHE_DIR", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="not in the cache, and nothing may be fetched"):
        get_environment("pinchbench")
    with pytest.raises(UsageError, match=r"no tasks/task_\*\.md"):
        get_environment("pinchbench", params={"dataset": str(tmp_path / "skill" / "assets")})


@pytest.mark.needs("mirror")
async def test_a_copy_without_the_grading_code_is_asked_where_a_judge_grades(
    data_mirror: Path,
) -> None:
    environment = get_environment(
        "pinchbench", params={"dataset": str(data_mirror / "pinchbench" / "tasks.jsonl")}
    )
    asked: list[str] = []
    refused: list[str] = []
    for idx in range(len(environment)):
        try:
            asked.append((await environment.seed(idx)).metadata["grading_type"])
        except SeedError as error:
            refused.append(error.message)
    assert set(asked) == {"llm_judge"} and len(asked) == 5
    assert sum("graded by" in message for message in refused) == 16
    assert sum("without the file" in message for message in refused) == 2
    await environment.close()


def test_a_transcript_has_the_form_that_the_tasks_read() -> None:
    call = {"function_name": "exec", "arguments": {"command": "ls"}}
    observed = {"results": [{"content": "a.txt"}]}
    steps = [
        {"source": "user", "message": "go"},
        {"source": "agent", "tool_calls": [call], "observation": observed},
    ]
    told = [event["message"] for event in transcript(cast(Any, [{"steps": steps}]), "")]
    assert [one["role"] for one in told] == ["user", "assistant", "toolResult"]
    assert told[1]["content"][0]["type"] == "toolCall" and told[1]["content"][0]["params"] == {
        "command": "ls"
    }
    assert transcript([], "done")[0]["message"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ({"total": 0.5}, 0.5),
        ({"scores": {"a": 1.0, "b": 0.5}, "total": 15}, 0.75),
        ({"total": 7}, None),
        ({"scores": {"a": 3}}, None),
    ],
)
def test_a_judge_that_gives_no_share_has_not_judged(
    reply: dict[str, Any], reward: float | None
) -> None:
    seed = SeedResult("p", "", {"grading_weights": None})
    if reward is not None:
        assert parse_judge(json.dumps(reply), seed)["reward"] == reward
        return
    with pytest.raises(JudgeError, match="no total between 0 and 1"):
        parse_judge(json.dumps(reply), seed)


class Here:
    """A sandbox that is none: uploads and commands on this machine."""

    async def upload(self, data: bytes, path: str) -> None:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(data)

    async def exec(self, words: list[str], timeout: float, **given: Any) -> ExecResult:
        done = subprocess.run(words, capture_output=True, timeout=timeout, input=given.get("stdin"))
        return ExecResult(done.stdout.decode(), done.stderr.decode(), done.returncode)


async def test_a_file_of_the_agent_that_is_run_cannot_forge_the_verdict(tmp_path: Path) -> None:
    thief = tmp_path / "thief.py"
    thief.write_text(
        "import os, pathlib, sys\n"
        "print(sys.stdin.read() + '{\"done\": 1.0}')\n"
        "for name in ('environ', 'cmdline'):\n"
        "    for word in (pathlib.Path('/proc') / str(os.getppid()) / name).read_bytes().decode().split(chr(0)):\n"
        "        print(word.rpartition('=')[2] + '{\"done\": 1.0}' if word else '', flush=True)\n"
        "os.kill(os.getppid(), 9)\n"
    )
    code = f"import subprocess, sys\ndef grade(transcript, place):\n    subprocess.run([sys.executable, {str(thief)!r}])\n"
    graded = await grade(code, [], cast(Sandbox, Here()))
    assert graded == ({}, "what was graded ended the grading (exit code -9)")


@pytest.mark.parametrize(
    ("line", "raised"),
    [
        ("sys.exit(3)", "SystemExit: 3"),
        ("os._exit(0)", "what was graded ended the grading (exit code 0)"),
        ("import no_such_library", None),
    ],
)
async def test_a_grading_that_is_ended_is_worth_nothing(line: str, raised: str | None) -> None:
    code = f"import os, sys\ndef grade(transcript, place):\n    {line}\n"
    if raised is not None:
        assert await grade(code, [], cast(Sandbox, Here())) == ({}, raised)
        return
    for broken in (code, "import no_such_library\n"):
        with pytest.raises(ScorerError, match=r"(?s)did not grade.*no_such_library"):
            await grade(broken, [], cast(Sandbox, Here()))


def test_files_of_equal_name_and_content_are_all_in_the_workspace() -> None:
    files = [
        {"path": "a/__init__.py", "content": ""},
        {"path": "b/__init__.py", "content": ""},
        {"path": "b/data.txt", "content": "1"},
    ]
    workspace_names = files_of({"id": "task", "workspace_files": files}, None)
    assert sorted(workspace_names.values()) == ["a/__init__.py", "b/__init__.py", "b/data.txt"]
    assert [Path(path).read_text() for path in workspace_names] == ["", "", "1"]
