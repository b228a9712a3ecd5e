"""Hostile tool calls through the whole of ``nel eval run``: each is answered in words, and none ends a problem."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from nemo_evaluator.cli.main import nel
from nemo_evaluator.core.files import iter_jsonl
from nemo_evaluator.testing import Say, ScriptedServer, Seen


@dataclass(frozen=True)
class Hostile:
    """A call, what the shell does before it, and a pattern of what the model must be told."""

    name: str
    tool: str
    arguments: Any
    told: str
    before: str = ""
    # None: this differs from sandbox to sandbox.
    error: bool | None = True


def _edit(path: str, **more: Any) -> dict[str, Any]:
    return {"command": "str_replace", "path": path, "old_str": "a", "new_str": "b", **more}


def _view(*lines: Any) -> dict[str, Any]:
    return {"command": "view", "path": "f", "view_range": lines}


LONG = "n" * 300
DEEP = '{"command":' * 600 + "1" + "}" * 600
# The end of a command as a container's wrapper would tell it, with every word that can be read from inside.
FORGE = r"""for word in $NEL_EXEC $(tr '\0' '\n' < /proc/$PPID/cmdline | grep -xE '[0-9a-f]{16}|[0-9]+'); do
printf '\0NEL-END %s 0 0 0\0\n' "$word" | tee /dev/stderr; done; sleep 0.3; exit 3"""
SWARM = "echo hi > f; for i in $(seq 100); do sleep 100 & done"
READ, WRITE, EDIT, BASH = "file_read", "file_write", "str_replace_editor", "bash"
FAIL = r"^Could not {} .*: {}$"
CALLS = [
    # Paths that cannot be read.
    Hostile(
        "missing file", READ, {"path": "/nope"}, FAIL.format("read", "No such file or directory")
    ),
    Hostile("folder", READ, {"path": "/tmp"}, FAIL.format("read", "Is a directory")),
    Hostile(
        "file as folder", READ, {"path": "f/x"}, FAIL.format("read", "Not a directory"), "echo > f"
    ),
    Hostile("long name", READ, {"path": f"/tmp/{LONG}"}, FAIL.format("read", "File name too long")),
    Hostile("long path", READ, {"path": "/a" * 3000}, FAIL.format("read", "File name too long")),
    Hostile("huge path", READ, {"path": "/a" * 200_000}, FAIL.format("read", "File name too long")),
    Hostile(
        "loop",
        READ,
        {"path": "l1"},
        FAIL.format("read", "Too many levels.*"),
        "ln -s l1 l2; ln -s l2 l1",
    ),
    Hostile(
        "dangling link",
        READ,
        {"path": "d"},
        FAIL.format("read", "No such file or directory"),
        "ln -s gone d",
    ),
    Hostile(
        "relative link",
        READ,
        {"path": "x/l"},
        "^hi$",
        "mkdir x; echo hi>f; ln -s ../f x/l",
        error=False,
    ),
    Hostile("device", READ, {"path": "/dev/zero"}, FAIL.format("read", "Not a regular file")),
    Hostile("pipe", READ, {"path": "p"}, FAIL.format("read", "Not a regular file"), "mkfifo p"),
    Hostile("binary", READ, {"path": "b"}, "is a binary file", r"printf 'a\0b' > b"),
    Hostile("not utf-8", READ, {"path": "b"}, "^a\ufffd$", r"printf 'a\xff' > b", error=False),
    Hostile("too large", READ, {"path": "big"}, "larger than", "truncate -s 5G big"),
    Hostile(
        "option as path", READ, {"path": "--help"}, FAIL.format("read", "No such file or directory")
    ),
    Hostile("NUL in path", READ, {"path": "a\0b"}, "NUL"),
    Hostile("empty path", READ, {"path": ""}, "path.* is empty"),
    Hostile(
        "vanished cwd", READ, {"path": "f"}, FAIL.format("read", ".*"), "mkdir v; cd v; rmdir ../v"
    ),
    Hostile(
        "process memory",
        READ,
        {"path": "/proc/self/mem"},
        FAIL.format("read", "Input/output error"),
    ),
    # Paths that cannot be written.
    Hostile(
        "long name",
        WRITE,
        {"path": LONG, "content": "x"},
        FAIL.format("write", "File name too long"),
    ),
    Hostile(
        "folder", WRITE, {"path": "/tmp", "content": "x"}, FAIL.format("write", "Is a directory")
    ),
    Hostile(
        "folder by slash",
        WRITE,
        {"path": "nd/", "content": "x"},
        FAIL.format("write", "Is a directory"),
    ),
    Hostile(
        "file as folder",
        WRITE,
        {"path": "f/g/h", "content": "x"},
        FAIL.format("write", ".*"),
        "echo > f",
    ),
    Hostile(
        "kernel file", WRITE, {"path": "/proc/version", "content": "x"}, FAIL.format("write", ".*")
    ),
    Hostile(
        "device",
        WRITE,
        {"path": "/dev/null", "content": "x"},
        FAIL.format("write", "Not a regular file"),
    ),
    Hostile(
        "through link",
        WRITE,
        {"path": "l", "content": "x"},
        "^Wrote 1 byte",
        "ln -s t l",
        error=False,
    ),
    Hostile("surrogate", WRITE, '{"path": "f", "content": "\\ud800"}', "not .*JSON|Unicode"),
    Hostile(
        "content is a list", WRITE, {"path": "f", "content": ["x"]}, "'content' must be a string"
    ),
    Hostile("no content", WRITE, {"path": "f"}, "'content' is missing"),
    Hostile(
        "5 MB",
        WRITE,
        {"path": "f", "content": "x" * 5_000_000},
        "^Wrote 5000000 bytes",
        error=False,
    ),
    # Edits.
    Hostile("no occurrence", EDIT, _edit("f"), "No occurrence", "echo b > f"),
    Hostile("many", EDIT, _edit("f"), "2 occurrences", "echo aa > f"),
    Hostile("empty old", EDIT, _edit("f", old_str=""), "'old_str' is empty", "echo aa > f"),
    Hostile(
        "number as new", EDIT, _edit("f", new_str=7), "'new_str' must be a string", "echo a > f"
    ),
    Hostile("not text", EDIT, _edit("f"), "not valid UTF-8", r"printf 'a\xff' > f"),
    Hostile("made-up command", EDIT, _edit("f", command="undo"), "Unknown command 'undo'"),
    Hostile(
        "huge offset",
        EDIT,
        {"command": "view", "path": "f", "view_range": [10**30, -1]},
        "range|not",
        "echo > f",
    ),
    Hostile(
        "words as range",
        EDIT,
        {"command": "view", "path": "f", "view_range": ["a"]},
        "view_range",
        "echo > f",
    ),
    Hostile(
        "bools as range",
        EDIT,
        {"command": "view", "path": "f", "view_range": [True, 2]},
        "view_range",
        "echo > f",
    ),
    # Commands.
    Hostile("empty", BASH, {"command": " \n"}, "'command' is empty"),
    Hostile("NUL", BASH, {"command": "echo a\0b"}, "NUL"),
    Hostile("list", BASH, {"command": ["ls", "-l"]}, "'command' must be a string"),
    Hostile("null", BASH, {"command": None}, "'command' is missing"),
    Hostile("nothing", BASH, {}, "'command' is missing"),
    Hostile("negative timeout", BASH, {"command": "echo hi", "timeout": -5}, "^hi$", error=False),
    Hostile("3 MB", BASH, {"command": f": {'x' * 3_000_000}; echo ok"}, "^ok$", error=False),
    Hostile("E2BIG", BASH, {"command": f"/bin/echo {'x' * 3_000_000}"}, "Argument list too long"),
    Hostile("unclosed", BASH, {"command": "echo 'x"}, "unexpected EOF"),
    Hostile("kills itself", BASH, {"command": "kill -9 $$"}, "exit code 137"),
    Hostile("kills all", BASH, {"command": "kill -9 -1"}, "exit code|No such process", error=None),
    Hostile(
        "flood",
        BASH,
        {"command": "head -c 3000000 /dev/zero | tr '\\0' x"},
        "truncated",
        error=False,
    ),
    Hostile(
        "binary out", BASH, {"command": r"printf 'a\377\033[2Jb'"}, "^a\ufffd\x1b", error=False
    ),
    Hostile("endless", BASH, {"command": "echo begun; sleep 600"}, "timed out.*\nbegun"),
    Hostile("no shell left", BASH, {"command": "exec 1>&- 2>&-; exit 4"}, "exit code 4"),
    Hostile(
        "takes away cwd",
        BASH,
        {"command": "pwd"},
        ".",
        "cd /tmp; rm -rf /workspace/* /tmp/.nel*",
        error=False,
    ),
    Hostile("forged end", BASH, {"command": FORGE}, "exit code 3"),
    Hostile(
        "no process left", READ, {"path": "f"}, "^hi$|Resource temp|exit code", SWARM, error=None
    ),
    Hostile(
        "no process left",
        BASH,
        {"command": "echo $((6*7))"},
        "^42$|fork|Resource temp|exit code",
        SWARM,
        error=None,
    ),
    # Calls that are none.
    Hostile(
        "unknown", "file_reed", {"path": "f"}, "no tool named 'file_reed'.*Did you mean 'file_read'"
    ),
    Hostile("no name", "", {}, "no tool named"),
    Hostile("long name of a tool", "x" * 100_000, {}, r"no tool named 'x{10,200}\.\.\.'"),
    Hostile("prose", BASH, "run ls please", "not a valid JSON object"),
    Hostile("cut off", BASH, '{"command": "ls', "not a valid JSON object"),
    Hostile("an array", BASH, '["ls"]', "not a valid JSON object"),
    Hostile("deep", BASH, DEEP, "not a valid JSON object|nested too deeply|must be a string"),
    Hostile(
        "deep list",
        WRITE,
        '{"path": ' + "[" * 300 + "]" * 300 + "}",
        "nested|must be a string|not a valid",
    ),
    Hostile("big number", READ, '{"path": ' + "9" * 400 + "}", "must be a string|not a valid"),
]
BENCHMARK = """
from nemo_evaluator import ScorerInput, benchmark, scorer

@benchmark(name="hostile", dataset=lambda: [{{"q": f"call {{at}}", "a": "done"}} for at in range({size})],
           prompt="{{q}}", target_field="a")
@scorer
def check(sample: ScorerInput) -> dict:
    return {{"correct": sample.response == sample.target}}
"""
DOCKER = {
    "type": "docker",
    "image": "nel-test/python:bookworm",
    "memory": "256m",
    "pids": 64,
    "concurrency": 8,
}


def _model(seen: Seen) -> Say:
    messages = seen.body["messages"]
    number = next(m["content"] for m in messages if m["role"] == "user").split()[-1]
    call = CALLS[int(number)]
    script = [("bash", {"command": call.before})] if call.before else []
    script.append((call.tool, call.arguments))
    turn = sum(message["role"] == "assistant" for message in messages)
    if turn == len(script):
        return Say("done")
    name, given = script[turn]
    arguments = given if isinstance(given, str) else json.dumps(given)
    return Say(
        "",
        tool_calls=[{"id": "c", "name": name, "arguments": arguments}],
        finish_reason="tool_calls",
    )


@pytest.mark.parametrize(
    "sandbox",
    [
        pytest.param(
            {"type": "local", "pids": 64, "concurrency": 8},
            marks=pytest.mark.needs("bwrap"),
            id="local",
        ),
        pytest.param(DOCKER, marks=pytest.mark.needs("docker"), id="docker"),
    ],
)
def test_each_hostile_call_is_answered_in_words(
    sandbox: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    assert len(CALLS) >= 40
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hostile.py").write_text(BENCHMARK.format(size=len(CALLS)))
    with ScriptedServer(_model) as server:
        solver = {
            "type": "tool_calling",
            "service": "model",
            "sandbox_tools": True,
            "tool_timeout": 8,
        }
        one = {
            "name": str(tmp_path / "hostile.py"),
            "solver": solver,
            "sandbox": sandbox,
            "max_concurrent": 8,
        }
        config = {
            "services": {
                "model": {
                    "type": "api",
                    "url": server.url,
                    "protocol": "chat_completions",
                    "model": "m",
                }
            },
            "benchmarks": [one],
            "output": {"dir": str(tmp_path / "out")},
        }
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
        ran = CliRunner().invoke(nel, ["eval", "run", str(tmp_path / "c.yaml")])
    assert ran.exit_code == 0, ran.output
    assert "Traceback" not in ran.output
    folder = tmp_path / "out" / "hostile"
    rows = {row["problem_idx"]: row for row in iter_jsonl(folder / "results.jsonl")}
    assert [row.get("failure") for row in rows.values() if row["status"] != "scored"] == []
    assert {row["reward"] for row in rows.values()} == {1.0}
    wrong = []
    for trail in iter_jsonl(folder / "trajectories.jsonl"):
        call = CALLS[trail["problem_idx"]]
        told, is_error = _last_result(trail)
        as_told = re.search(call.told, told) and call.error in (None, is_error)
        if not as_told or re.search("Traceback|__nel|SandboxError", told):
            wrong.append(f"{call.name}: {is_error} {told[:300]!r}")
    assert wrong == []


def _last_result(trail: dict[str, Any]) -> tuple[str, bool]:
    text = json.dumps(trail)
    assert "observation" in text
    document = trail["trajectory"]
    document = document[0] if isinstance(document, list) else document
    step = [step for step in document["steps"] if step.get("observation")][-1]
    return step["observation"]["results"][-1]["content"], step["extra"]["tool_outcomes"][-1][
        "is_error"
    ]
