"""The sandbox tools in a real sandbox: a shell that lasts, and files."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.solvers.tools.sandbox import SandboxSession, SandboxTools

pytestmark = [pytest.mark.needs("bwrap"), pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture
def tools(sandbox: Any) -> SandboxSession:
    return SandboxSession(sandbox)


async def run(tools: SandboxSession, command: str, timeout: float = 20.0) -> tuple[str, bool]:
    result = await tools.call("bash", {"command": command}, timeout)
    return result.content, result.is_error


async def test_the_shell_lasts(tools: SandboxSession) -> None:
    await run(
        tools,
        "x=5; export Y='a b\nc'; arr=(1 '3 4'); f() { echo \"f$1\"; }; mkdir 'd e'; cd 'd e'; code=9",
    )
    said, failed = await run(
        tools, 'pwd; echo "$x" "${arr[1]}" "$code"; f 9; bash -c \'echo "$Y"\''
    )
    assert (said, failed) == ("/workspace/d e\n5 3 4 9\nf9\na b\nc", False)


async def test_exit_codes_heredocs_and_background_are_true(tools: SandboxSession) -> None:
    assert await run(tools, "echo out; echo err >&2; false") == (
        "[exit code 1]\nout\nSTDERR:\nerr",
        True,
    )
    assert await run(tools, "cd /tmp; exit 7") == ("[exit code 7]\n(no output)", True)
    assert await run(tools, "pwd") == ("/tmp", False)
    assert await run(tools, "cat <<EOF\nhi\nEOF") == ("hi", False)
    assert await run(tools, "sleep 60 & echo started") == ("started", False)
    assert await run(tools, "pgrep -xc sleep") == ("1", False)
    assert await run(tools, "read z; echo got:$z") == ("got:", False)


async def test_options_last_and_do_not_break_the_next_command(tools: SandboxSession) -> None:
    assert (await run(tools, "set -e; false; echo no"))[0] == "[exit code 1]\n(no output)"
    assert (await run(tools, "false; echo no"))[0] == "[exit code 1]\n(no output)"
    assert await run(tools, "set +e; set -o pipefail") == ("(no output)", False)
    assert (await run(tools, "false | true"))[1] is True


async def test_a_syntax_error_is_told_and_forgotten(tools: SandboxSession) -> None:
    said, failed = await run(tools, "echo 'unclosed")
    assert failed
    assert "unexpected EOF" in said
    assert "__nel" not in said
    assert await run(tools, "echo fine") == ("fine", False)


async def test_a_deadline_keeps_output_and_shell(tools: SandboxSession) -> None:
    await run(tools, "x=5")
    started = time.monotonic()
    said, failed = await run(tools, "echo begun; sleep 30", timeout=0.5)
    assert time.monotonic() - started < 2
    assert (said, failed) == ("[timed out after 0.5 s; partial output]\nbegun", True)
    assert await run(tools, "echo $x") == ("5", False)


async def test_a_killed_shell_comes_back_as_it_was(tools: SandboxSession) -> None:
    await run(tools, "x=5; cd /tmp")
    assert (await run(tools, "kill -9 $$"))[0].startswith("[exit code 137]")
    assert await run(tools, "echo $x; pwd") == ("5\n/tmp", False)


async def test_without_bash_the_directory_lasts(tools: SandboxSession) -> None:
    from nemo_evaluator.solvers.tools import sandbox

    tools._launch = ["sh", "-c", sandbox._SH]
    assert await run(tools, "cd /tmp; exit 3") == ("[exit code 3]\n(no output)", True)
    assert await run(tools, "pwd") == ("/tmp", False)
    assert (
        await tools.call("file_write", {"path": "r", "content": ""}, 20)
    ).content == "Wrote 0 bytes to /tmp/r."


async def test_files_are_written_where_the_shell_is_and_paths_are_never_code(
    tools: SandboxSession,
) -> None:
    await run(tools, "mkdir -p /tmp/w; cd /tmp/w")
    path = "a b/$(touch pwned); it's.txt"
    written = await tools.call("file_write", {"path": path, "content": "one\ntwo é\n"}, 20)
    assert written.content == f"Wrote 11 bytes to /tmp/w/{path}."
    assert (await tools.call("file_read", {"path": path}, 20)).content == "one\ntwo é\n"
    assert await run(tools, "find /tmp/w -name 'pwned*'") == ("(no output)", False)


async def test_an_edit_keeps_the_mode_and_moves_the_time(tools: SandboxSession) -> None:
    await run(tools, "echo 'echo one' > s.sh; chmod 750 s.sh; touch -d 2001-01-01 s.sh")
    edit = {"command": "str_replace", "path": "s.sh", "old_str": "one", "new_str": "two"}
    assert not (await tools.call("str_replace_editor", edit, 20)).is_error
    said, _ = await run(tools, "stat -c %a s.sh; find s.sh -newermt 2020-01-01; ./s.sh")
    assert said == "750\ns.sh\ntwo"


async def test_view_numbers_lines_and_create_writes(tools: SandboxSession) -> None:
    create = {"command": "create", "path": "/tmp/n.txt", "file_text": "a\nb\nc\n"}
    assert not (await tools.call("str_replace_editor", create, 20)).is_error
    view = {"command": "view", "path": "/tmp/n.txt", "view_range": [2, -1]}
    assert (await tools.call("str_replace_editor", view, 20)).content == "     2\tb\n     3\tc"


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("file_read", {"path": "/nope"}, "Could not read /nope: No such file or directory"),
        ("file_read", {"path": "/tmp"}, "Could not read /tmp: Is a directory"),
        ("file_read", {"path": "/dev/zero"}, "Could not read /dev/zero: Not a regular file"),
        ("file_read", {}, "The required argument 'path' is missing."),
        ("file_read", {"path": 3}, "The argument 'path' must be a string."),
        ("file_write", {"path": "/tmp/x"}, "The required argument 'content' is missing."),
        ("bash", {"cmd": "ls"}, "The required argument 'command' is missing."),
        (
            "str_replace_editor",
            {"command": "undo", "path": "/x"},
            "Unknown command 'undo'. Use view, create or str_replace.",
        ),
        (
            "str_replace_editor",
            {"command": "str_replace", "path": "/etc/hostname", "old_str": ""},
            "The argument 'old_str' is empty.",
        ),
    ],
)
async def test_what_a_model_does_wrong_is_told_to_it(
    tools: SandboxSession, tool: str, arguments: Any, said: str
) -> None:
    result = await tools.call(tool, arguments, 20)
    assert (result.content, result.is_error) == (said, True)


async def test_a_replacement_must_be_unambiguous_and_text(tools: SandboxSession) -> None:
    await run(tools, r"printf 'aa' > t; printf 'a\xff' > b")
    twice = await tools.call(
        "str_replace_editor", {"command": "str_replace", "path": "t", "old_str": "a"}, 20
    )
    assert twice.content == (
        "Found 2 occurrences of old_str in /workspace/t. It must occur exactly once; the file was not changed."
    )
    binary = await tools.call(
        "str_replace_editor", {"command": "str_replace", "path": "b", "old_str": "a"}, 20
    )
    assert "not valid UTF-8" in binary.content
    assert (await tools.call("file_read", {"path": "b"}, 20)).content == "a\ufffd"


async def test_what_is_written_goes_through_a_link_and_keeps_it(tools: SandboxSession) -> None:
    await run(tools, "mkdir -p deep; echo old > deep/t; ln -s deep/t l")
    assert not (await tools.call("file_write", {"path": "l", "content": "new"}, 20)).is_error
    assert await run(tools, "cat deep/t; readlink l") == ("newdeep/t", False)


async def test_a_change_of_what_the_model_reads_is_another_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from nemo_evaluator.solvers.tools import sandbox as module

    before = SandboxTools().describe()
    monkeypatch.setattr(module, "TOOLS", module.TOOLS[:3])
    assert SandboxTools().describe() != before


async def test_calls_of_one_turn_keep_their_order(tools: SandboxSession) -> None:
    commands = ["sleep 0.2; echo 1 >> log", "echo 2 >> log", "cat log"]
    answers = await asyncio.gather(*(run(tools, command) for command in commands))
    assert answers[-1][0] == "1\n2"


async def test_no_sandbox_is_a_failure_of_the_harness() -> None:
    with pytest.raises(SandboxError, match="needs a sandbox"):
        await SandboxTools().open(SeedResult("q", "a"), None)
