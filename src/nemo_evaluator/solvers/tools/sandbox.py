"""Tools inside the problem's sandbox: a persistent shell, and files.

Files are read and written by commands inside, as the user that the shell runs as: what that user may not do is told to
the model in the words of the system. Only what the sandbox's own ``exec`` raises is a failure of the sandbox.
"""

import asyncio
import posixpath
import uuid
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.sandbox.base import ExecResult, Sandbox
from nemo_evaluator.solvers.tools.base import Tool, ToolResult

_READ_LIMIT: Final = 10 * 2**20
_PATH_LIMIT: Final = 4096
# Where a file starts like this, it is not text.
_BINARY_LOOK: Final = 8192
# Of devices and pipes a read may never end, and a write reaches what is no file.
_REGULAR: Final = (
    '[ ! -e "$1" ] || [ -d "$1" ] || [ -f "$1" ] || { echo ": Not a regular file" >&2; exit 1; }\n'
)
_READ: Final = _REGULAR + 'head -c "$2" -- "$1"'
# Not through a new file: mode, owner and links stay as they are, and the time moves.
_WRITE: Final = _REGULAR + 'mkdir -p -- "$2" && cat > "$1"'
# Raise when the words of results change: they are part of what a model is asked.
_WORDS: Final = 2
# What models read; its digest is part of the fingerprint.
TOOLS: Final = [Tool(**one) for one in read_json(Path(__file__).with_name("sandbox_tools.json"))]
# Their $1 is the file that keeps the state; where there is no bash, only the working directory is kept.
_BASH, _SH = (
    Path(__file__).with_name(name).read_text() for name in ("shell_bash.sh", "shell_sh.sh")
)


class _Refused(Exception):
    """Something the model did wrong, in words for the model."""


class SandboxSession:
    """The tools of one problem; calls run one after another, in the order they were asked for."""

    name = "sandbox"

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._lock = asyncio.Lock()
        # What is kept of the shell between its commands, and how it is started.
        self._state = f"/tmp/.nel-shell-{uuid.uuid4().hex[:12]}"
        self._launch: list[str] | None = None

    async def tools(self) -> list[Tool]:
        return TOOLS

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Run one call; what the model did wrong is told to it."""
        async with self._lock:
            try:
                if tool == "bash":
                    return await self._bash(_word(arguments, "command"), timeout)
                if tool == "file_read":
                    return ToolResult(await self._read(await self._path(arguments), timeout))
                if tool == "file_write":
                    return await self._write(
                        await self._path(arguments), _text(arguments, "content"), timeout
                    )
                return await self._edit(arguments, timeout)
            except _Refused as refused:
                return ToolResult(str(refused), is_error=True)

    async def close(self) -> None:
        """The sandbox belongs to whoever made it."""

    async def _bash(self, command: str, timeout: float) -> ToolResult:
        if self._launch is None:
            found = await self._sandbox.exec(["sh", "-c", "command -v bash"], timeout=60.0)
            if found.timed_out:
                raise SandboxError("the sandbox did not answer within 60 s")
            if found.ok:
                self._launch = ["bash", "--norc", "--noprofile", "-c", _BASH]
            else:
                self._launch = ["sh", "-c", _SH]
        words = [*self._launch, "bash", self._state]
        return shown(
            await self._sandbox.exec(
                words, stdin=command.encode(), timeout=timeout, background=True
            ),
            timeout,
        )

    async def _edit(self, arguments: JsonDict, timeout: float) -> ToolResult:
        command = _text(arguments, "command")
        path = await self._path(arguments)
        if command == "view":
            return ToolResult(
                _numbered(await self._read(path, timeout), arguments.get("view_range"))
            )
        if command == "create":
            # Some models were taught another name for the content.
            if "file_text" in arguments and "new_str" not in arguments:
                content = "file_text"
            else:
                content = "new_str"
            return await self._write(path, _text(arguments, content), timeout)
        if command != "str_replace":
            raise _Refused(f"Unknown command {command[:100]!r}. Use view, create or str_replace.")
        old = _text(arguments, "old_str")
        if arguments.get("new_str") is None:
            new = ""
        else:
            new = _text(arguments, "new_str")
        if not old:
            raise _Refused("The argument 'old_str' is empty.")
        text = await self._read(path, timeout, whole=True)
        found = text.count(old)
        if found != 1:
            if found:
                many = f"Found {found} occurrences of old_str"
            else:
                many = "No occurrence of old_str was found"
            raise _Refused(
                f"{many} in {path}. It must occur exactly once; the file was not changed."
            )
        await self._write(path, text.replace(old, new), timeout)
        return ToolResult(f"Replaced one occurrence in {path}.")

    async def _path(self, arguments: JsonDict) -> str:
        """The path, from the directory that the next command starts in."""
        path = _word(arguments, "path")
        if path.startswith("/"):
            return path
        kept = await self._sandbox.exec(["cat", f"{self._state}.cwd"], timeout=30.0, cwd="/")
        if kept.ok and kept.stdout.startswith("/"):
            here = kept.stdout
        else:
            here = self._sandbox.spec.workdir
        return posixpath.join(posixpath.normpath(here), path)

    async def _read(self, path: str, timeout: float, *, whole: bool = False) -> str:
        data = await self._inside("read", _READ, path, other=str(_READ_LIMIT + 1), timeout=timeout)
        if len(data) > _READ_LIMIT:
            raise _Refused(
                f"{path} is larger than {_READ_LIMIT >> 20} MB. Use bash to read parts of it."
            )
        if b"\0" in data[:_BINARY_LOOK]:
            raise _Refused(
                f"{path} is a binary file. Use bash to inspect it, for example with xxd or strings."
            )
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if whole:
                raise _Refused(
                    f"{path} is not valid UTF-8, so it cannot be edited as text. Use bash."
                ) from error
            return data.decode("utf-8", "replace")

    async def _write(self, path: str, content: str, timeout: float) -> ToolResult:
        data = content.encode()
        await self._inside(
            "write", _WRITE, path, other=posixpath.dirname(path), timeout=timeout, stdin=data
        )
        return ToolResult(f"Wrote {len(data)} byte{'' if len(data) == 1 else 's'} to {path}.")

    async def _inside(
        self,
        act: str,
        script: str,
        path: str,
        other: str,
        timeout: float,
        stdin: bytes | None = None,
    ) -> bytes:
        """Run a script on a file; its output as it is, or why the system did not allow it."""
        failed = f"Could not {act} {path[:_PATH_LIMIT]}"
        if len(path.encode()) >= _PATH_LIMIT:
            # Longer than any file's; and a long argument could not even be handed over.
            raise _Refused(f"{failed[:200]}...: File name too long")
        parts: list[bytes] = []
        ended = await self._sandbox.exec(
            ["sh", "-c", script, "sh", path, other],
            timeout=timeout,
            cwd="/",
            env={"LC_ALL": "C"},
            stdin=stdin,
            max_output_bytes=4096,
            on_output=lambda stream, piece: parts.append(piece) if stream == "stdout" else None,
        )
        if ended.timed_out:
            raise _Refused(f"{failed}: timed out after {timeout:g} s")
        if ended.exit_code != 0:
            said = ended.stderr.strip().rpartition("\n")[2]
            raise _Refused(
                f"{failed}: {said.rpartition(': ')[2] or f'exit code {ended.exit_code}'}"
            )
        return b"".join(parts)


class SandboxTools:
    """The four tools, in whatever sandbox the problem has."""

    name = "sandbox"

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> SandboxSession:
        if sandbox is None:
            raise SandboxError("sandbox_tools needs a sandbox", hint="give the benchmark a sandbox")
        return SandboxSession(sandbox)

    def describe(self) -> JsonDict:
        """What the model is offered and told; there is nothing to set."""
        return {
            "kind": "sandbox",
            "tools": digest([[tool.definition() for tool in TOOLS], (_BASH, _SH), _WORDS]),
        }


def shown(result: ExecResult, timeout: float) -> ToolResult:
    """The output of a command, as a model reads it; a failure says its exit code first."""
    if result.stdout.strip():
        parts = [result.stdout.rstrip("\n")]
    else:
        parts = []
    if result.stderr.strip():
        parts.append(f"STDERR:\n{result.stderr.rstrip()}")
    body = "\n".join(parts) or "(no output)"
    if result.timed_out:
        return ToolResult(f"[timed out after {timeout:g} s; partial output]\n{body}", is_error=True)
    if result.out_of_memory:
        body = f"[out of memory]\n{body}"
    if result.exit_code != 0:
        return ToolResult(f"[exit code {result.exit_code}]\n{body}", is_error=True)
    return ToolResult(body)


def _numbered(text: str, view_range: Any) -> str:
    lines = text.splitlines()
    first = 1
    last = len(lines)
    if view_range is not None:
        if not (
            isinstance(view_range, list) and [type(number) for number in view_range] == [int, int]
        ):
            raise _Refused("The argument 'view_range' must be a list of two integers.")
        first = max(1, view_range[0])
        if view_range[1] == -1:
            last = len(lines)
        else:
            last = min(view_range[1], len(lines))
        if first > last:
            raise _Refused(
                f"view_range {view_range} is out of range: the file has {len(lines)} lines."
            )
    return (
        "\n".join(f"{number:6d}\t{lines[number - 1]}" for number in range(first, last + 1))
        or "(empty file)"
    )


def _text(arguments: JsonDict, name: str) -> str:
    value = arguments.get(name)
    if value is None:
        raise _Refused(f"The required argument {name!r} is missing.")
    if not isinstance(value, str):
        raise _Refused(f"The argument {name!r} must be a string.")
    return value


def _word(arguments: JsonDict, name: str) -> str:
    """A text that goes to the system, which ends it at a NUL."""
    text = _text(arguments, name)
    if not text.strip():
        raise _Refused(f"The argument {name!r} is empty.")
    if "\0" in text:
        raise _Refused(f"The argument {name!r} contains a NUL character.")
    return text
