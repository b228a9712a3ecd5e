"""Tools inside the problem's sandbox: a persistent shell, and files.

Files are read and written by commands inside the sandbox, as the same user as the shell. The model sees the system's
own message when that user lacks a permission. Only errors raised by the sandbox's ``exec`` are failures of the sandbox.
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
# A NUL within the first bytes marks a binary file.
_BINARY_LOOK: Final = 8192
# Reading a device or a pipe may never end, and writing to one would not create a file.
_REGULAR: Final = (
    '[ ! -e "$1" ] || [ -d "$1" ] || [ -f "$1" ] || { echo ": Not a regular file" >&2; exit 1; }\n'
)
_READ: Final = _REGULAR + 'head -c "$2" -- "$1"'
# Written in place: mode, owner and links stay as they are, and the modification time changes.
_WRITE: Final = _REGULAR + 'mkdir -p -- "$2" && cat > "$1"'
# Increase when the wording of results changes: models see it, so it is part of the fingerprint.
_WORDS: Final = 2
# Models read these definitions; their digest is part of the fingerprint.
TOOLS: Final = [
    Tool(**entry) for entry in read_json(Path(__file__).with_name("sandbox_tools.json"))
]
# Their $1 is the file that keeps the state; without bash, only the working directory persists.
_BASH: Final = Path(__file__).with_name("shell_bash.sh").read_text()
_SH: Final = Path(__file__).with_name("shell_sh.sh").read_text()


class _Refused(Exception):
    """A mistake of the model; the message is written for the model."""


class SandboxSession:
    """The tools of one problem; calls run one after another, in the order of the requests.

    Attributes:
        name: The name of the source.
    """

    name = "sandbox"

    def __init__(self, sandbox: Sandbox) -> None:
        """Create a session; nothing runs yet.

        Args:
            sandbox: The problem's sandbox.
        """
        self._sandbox = sandbox
        self._lock = asyncio.Lock()
        # The file with the shell's state between commands, and the command that starts the shell.
        self._state = f"/tmp/.nel-shell-{uuid.uuid4().hex[:12]}"
        self._launch: list[str] | None = None

    async def tools(self) -> list[Tool]:
        """List the four tools."""
        return TOOLS

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Run one call; a mistake of the model is a result that the model sees.

        Args:
            tool: The tool's name.
            arguments: Its arguments.
            timeout: Seconds for the call.

        Raises:
            SandboxError: The sandbox failed.
        """
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
        """Close nothing: the sandbox belongs to the caller who created it."""

    async def _bash(self, command: str, timeout: float) -> ToolResult:
        """Run a command in the persistent shell: bash where the sandbox has it, otherwise sh."""
        if self._launch is None:
            bash_check = await self._sandbox.exec(["sh", "-c", "command -v bash"], timeout=60.0)
            if bash_check.timed_out:
                raise SandboxError("the sandbox did not answer within 60 s")
            if bash_check.ok:
                self._launch = ["bash", "--norc", "--noprofile", "-c", _BASH]
            else:
                self._launch = ["sh", "-c", _SH]
        result = await self._sandbox.exec(
            [*self._launch, "bash", self._state],
            stdin=command.encode(),
            timeout=timeout,
            background=True,
        )
        return shown(result, timeout)

    async def _edit(self, arguments: JsonDict, timeout: float) -> ToolResult:
        """View or create a file, or replace a text that occurs exactly once in it."""
        command = _text(arguments, "command")
        path = await self._path(arguments)
        if command == "view":
            file_text = await self._read(path, timeout)
            return ToolResult(_numbered(file_text, arguments.get("view_range")))
        if command == "create":
            content_argument = "new_str"
            # Some models were trained with another name for the content.
            if "file_text" in arguments and "new_str" not in arguments:
                content_argument = "file_text"
            return await self._write(path, _text(arguments, content_argument), timeout)
        if command == "str_replace":
            return await self._replace(arguments, path, timeout)
        raise _Refused(f"Unknown command {command[:100]!r}. Use view, create or str_replace.")

    async def _replace(self, arguments: JsonDict, path: str, timeout: float) -> ToolResult:
        """Replace a text that occurs exactly once in a file; without ``new_str``, delete it."""
        old_text = _text(arguments, "old_str")
        new_text = ""
        if arguments.get("new_str") is not None:
            new_text = _text(arguments, "new_str")
        if not old_text:
            raise _Refused("The argument 'old_str' is empty.")
        file_text = await self._read(path, timeout, whole=True)
        occurrences = file_text.count(old_text)
        if occurrences != 1:
            problem = "No occurrence of old_str was found"
            if occurrences:
                problem = f"Found {occurrences} occurrences of old_str"
            raise _Refused(
                f"{problem} in {path}. It must occur exactly once; the file was not changed."
            )
        await self._write(path, file_text.replace(old_text, new_text), timeout)
        return ToolResult(f"Replaced one occurrence in {path}.")

    async def _path(self, arguments: JsonDict) -> str:
        """Return the absolute path of the argument, relative to the shell's current directory."""
        path = _word(arguments, "path")
        if path.startswith("/"):
            return path
        directory = self._sandbox.spec.workdir
        result = await self._sandbox.exec(["cat", f"{self._state}.cwd"], timeout=30.0, cwd="/")
        if result.ok and result.stdout.startswith("/"):
            directory = result.stdout
        return posixpath.join(posixpath.normpath(directory), path)

    async def _read(self, path: str, timeout: float, *, whole: bool = False) -> str:
        """Return the text of a file; invalid UTF-8 is replaced, or refused if ``whole`` (the file will be edited)."""
        content = await self._inside(
            "read", _READ, path, other=str(_READ_LIMIT + 1), timeout=timeout
        )
        if len(content) > _READ_LIMIT:
            raise _Refused(
                f"{path} is larger than {_READ_LIMIT >> 20} MB. Use bash to read parts of it."
            )
        if b"\0" in content[:_BINARY_LOOK]:
            raise _Refused(
                f"{path} is a binary file. Use bash to inspect it, for example with xxd or strings."
            )
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            if whole:
                raise _Refused(
                    f"{path} is not valid UTF-8, so it cannot be edited as text. Use bash."
                ) from error
            return content.decode("utf-8", "replace")

    async def _write(self, path: str, content: str, timeout: float) -> ToolResult:
        encoded = content.encode()
        await self._inside(
            "write", _WRITE, path, other=posixpath.dirname(path), timeout=timeout, stdin=encoded
        )
        unit = "byte" if len(encoded) == 1 else "bytes"
        return ToolResult(f"Wrote {len(encoded)} {unit} to {path}.")

    async def _inside(
        self,
        act: str,
        script: str,
        path: str,
        other: str,
        timeout: float,
        stdin: bytes | None = None,
    ) -> bytes:
        """Run a script on a file and return its output; raise _Refused with the system's message when it fails."""
        failure = f"Could not {act} {path[:_PATH_LIMIT]}"
        if len(path.encode()) >= _PATH_LIMIT:
            # No file has such a long path, and a very long argument could not be passed to the command.
            raise _Refused(f"{failure[:200]}...: File name too long")
        chunks: list[bytes] = []

        def collect(stream: str, chunk: bytes) -> None:
            if stream == "stdout":
                chunks.append(chunk)

        result = await self._sandbox.exec(
            ["sh", "-c", script, "sh", path, other],
            timeout=timeout,
            cwd="/",
            env={"LC_ALL": "C"},
            stdin=stdin,
            max_output_bytes=4096,
            on_output=collect,
        )
        if result.timed_out:
            raise _Refused(f"{failure}: timed out after {timeout:g} s")
        if result.exit_code != 0:
            last_line = result.stderr.strip().rpartition("\n")[2]
            reason = last_line.rpartition(": ")[2]
            raise _Refused(f"{failure}: {reason or f'exit code {result.exit_code}'}")
        return b"".join(chunks)


class SandboxTools:
    """The four tools, in the sandbox that the problem has.

    Attributes:
        name: The name of the source.
    """

    name = "sandbox"

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> SandboxSession:
        """Open a session for one problem.

        Args:
            task: The problem; not used.
            sandbox: The problem's sandbox.

        Raises:
            SandboxError: The problem has no sandbox.
        """
        if sandbox is None:
            raise SandboxError("sandbox_tools needs a sandbox", hint="give the benchmark a sandbox")
        return SandboxSession(sandbox)

    def describe(self) -> JsonDict:
        """Return a digest of the tools and the shell scripts; there are no settings."""
        definitions = [tool.definition() for tool in TOOLS]
        return {"kind": "sandbox", "tools": digest([definitions, (_BASH, _SH), _WORDS])}


def shown(result: ExecResult, timeout: float) -> ToolResult:
    """Format the output of a command for a model; a failure starts with its exit code.

    Args:
        result: The result of the command.
        timeout: The time limit of the command, named when it was exceeded.
    """
    sections: list[str] = []
    if result.stdout.strip():
        sections.append(result.stdout.rstrip("\n"))
    if result.stderr.strip():
        sections.append(f"STDERR:\n{result.stderr.rstrip()}")
    body = "\n".join(sections) or "(no output)"
    if result.timed_out:
        return ToolResult(f"[timed out after {timeout:g} s; partial output]\n{body}", is_error=True)
    if result.out_of_memory:
        body = f"[out of memory]\n{body}"
    if result.exit_code != 0:
        return ToolResult(f"[exit code {result.exit_code}]\n{body}", is_error=True)
    return ToolResult(body)


def _numbered(text: str, view_range: Any) -> str:
    """Return the lines of a text, or a range of them, with their numbers."""
    lines = text.splitlines()
    first_line = 1
    last_line = len(lines)
    if view_range is not None:
        first_line, last_line = _line_range(view_range, len(lines))
    numbered_lines = []
    for number in range(first_line, last_line + 1):
        numbered_lines.append(f"{number:6d}\t{lines[number - 1]}")
    return "\n".join(numbered_lines) or "(empty file)"


def _line_range(view_range: Any, line_count: int) -> tuple[int, int]:
    """Return the first and the last line of a range, whose end may be -1 for the last line of the file."""
    is_list = isinstance(view_range, list)
    if not is_list or [type(number) for number in view_range] != [int, int]:
        raise _Refused("The argument 'view_range' must be a list of two integers.")
    start, end = view_range
    first_line = max(1, start)
    last_line = line_count
    if end != -1:
        last_line = min(end, line_count)
    if first_line > last_line:
        raise _Refused(f"view_range {view_range} is out of range: the file has {line_count} lines.")
    return first_line, last_line


def _text(arguments: JsonDict, name: str) -> str:
    """Return a required argument that must be a string."""
    value = arguments.get(name)
    if value is None:
        raise _Refused(f"The required argument {name!r} is missing.")
    if not isinstance(value, str):
        raise _Refused(f"The argument {name!r} must be a string.")
    return value


def _word(arguments: JsonDict, name: str) -> str:
    """Return a required argument for the system: a string that is not blank and has no NUL, which would end it."""
    text = _text(arguments, name)
    if not text.strip():
        raise _Refused(f"The argument {name!r} is empty.")
    if "\0" in text:
        raise _Refused(f"The argument {name!r} contains a NUL character.")
    return text
