"""Tools inside the problem's sandbox: a shell that lasts, and files."""

from __future__ import annotations

import asyncio
import posixpath
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.errors import SandboxError
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.solvers.tools._shell import Shell
from nemo_evaluator.solvers.tools.base import Tool, ToolResult

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

_STRING: Final = {"type": "string"}
_READ_LIMIT: Final = 10 * 2**20
# Says "dir", or mode and size of a file.
_LOOK: Final = (
    'if [ -d "$1" ]; then echo dir; elif [ -f "$1" ]; then stat -L -c "%a %s" -- "$1"; '
    'elif [ -e "$1" ]; then exit 45; else exit 44; fi'
)
_FRESHEN: Final = 'touch -- "$1"; [ -z "$2" ] || chmod "$2" -- "$1"'


def _object(required: list[str], **properties: JsonDict) -> JsonDict:
    return {"type": "object", "properties": properties, "required": required}


TOOLS: Final = [
    Tool(
        "bash",
        "Run a command in a bash shell. The shell lasts: directory, variables and background processes stay.",
        _object(["command"], command={**_STRING, "description": "The command to run."}),
    ),
    Tool(
        "file_read",
        "Read a text file.",
        _object(["path"], path={**_STRING, "description": "Path of the file."}),
    ),
    Tool(
        "file_write",
        "Write a text file, replacing what was there.",
        _object(["path", "content"], path={**_STRING, "description": "Path of the file."}, content=_STRING),
    ),
    Tool(
        "str_replace_editor",
        "View a file with line numbers, create a file, or replace a text that occurs exactly once in a file.",
        _object(
            ["command", "path"],
            command={"type": "string", "enum": ["view", "create", "str_replace"]},
            path={**_STRING, "description": "Path of the file."},
            old_str={**_STRING, "description": "For str_replace: the text to replace; it must occur exactly once."},
            new_str={**_STRING, "description": "For str_replace: the new text. For create: the content."},
            view_range={
                "type": "array",
                "items": {"type": "integer"},
                "description": "For view: first and last line, counted from 1; -1 as the last means the end.",
            },
        ),
    ),
]


class _Refused(Exception):
    """Something the model did wrong, in words for the model."""


class SandboxTools:
    """The four tools, in whatever sandbox the problem has."""

    name = "sandbox"

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> SandboxSession:
        """A session in the problem's sandbox."""
        if sandbox is None:
            raise SandboxError("sandbox_tools needs a sandbox", hint="give the benchmark a sandbox")
        return SandboxSession(sandbox)

    def describe(self) -> JsonDict:
        """Nothing to set."""
        return {"kind": "sandbox"}

    async def close(self) -> None:
        """Nothing is shared."""


class SandboxSession:
    """The tools of one problem; calls run one after another, in the order they were asked for."""

    name = "sandbox"

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._shell = Shell(sandbox)
        self._lock = asyncio.Lock()

    async def tools(self) -> list[Tool]:
        """The four tools."""
        return TOOLS

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Run one call; what the model did wrong is told to it."""
        run = {
            "bash": self._bash,
            "file_read": self._file_read,
            "file_write": self._file_write,
            "str_replace_editor": self._edit,
        }[tool]
        async with self._lock:
            try:
                return await run(arguments, timeout)
            except _Refused as refused:
                return ToolResult(str(refused), is_error=True)

    async def close(self) -> None:
        """The sandbox belongs to whoever made it."""

    async def _bash(self, arguments: JsonDict, timeout: float) -> ToolResult:
        return shown(await self._shell.run(_text(arguments, "command"), timeout), timeout)

    async def _file_read(self, arguments: JsonDict, timeout: float) -> ToolResult:
        return ToolResult(await self._read(await self._path(arguments)))

    async def _file_write(self, arguments: JsonDict, timeout: float) -> ToolResult:
        return await self._write(await self._path(arguments), _text(arguments, "content"))

    async def _edit(self, arguments: JsonDict, timeout: float) -> ToolResult:
        command, path = _text(arguments, "command"), await self._path(arguments)
        if command == "view":
            return ToolResult(_numbered(await self._read(path), arguments.get("view_range")))
        if command == "create":
            # Some models were taught another name for the content.
            content = "file_text" if "file_text" in arguments and "new_str" not in arguments else "new_str"
            return await self._write(path, _text(arguments, content))
        if command != "str_replace":
            raise _Refused(f"There is no command {command!r}: use view, create or str_replace.")
        old, new = _text(arguments, "old_str"), str(arguments.get("new_str") or "")
        if not old:
            raise _Refused("old_str is empty.")
        text = await self._read(path, whole=True)
        found = text.count(old)
        if found != 1:
            raise _Refused(f"old_str occurs {found} times in {path}; it must occur exactly once.")
        await self._write(path, text.replace(old, new))
        return ToolResult(f"Replaced one occurrence in {path}.")

    async def _path(self, arguments: JsonDict) -> str:
        path = _text(arguments, "path")
        if not path or "\0" in path:
            raise _Refused("path is empty or not a path.")
        return path if path.startswith("/") else posixpath.normpath(posixpath.join(await self._shell.cwd(), path))

    async def _look(self, path: str) -> tuple[str, int] | None:
        """Mode and size of a file; None when there is nothing."""
        seen = await self._sandbox.exec(["sh", "-c", _LOOK, "sh", path], timeout=30.0)
        if seen.exit_code == 44:
            return None
        said = seen.stdout.split()
        if said == ["dir"]:
            raise _Refused(f"{path} is a directory.")
        if not seen.ok or len(said) != 2:
            raise _Refused(f"{path} cannot be read as a file: {seen.stderr.strip() or 'not a regular file'}")
        return said[0], int(said[1])

    async def _read(self, path: str, *, whole: bool = False) -> str:
        seen = await self._look(path)
        if seen is None:
            raise _Refused(f"{path} does not exist.")
        if seen[1] > _READ_LIMIT:
            raise _Refused(f"{path} has {seen[1]} bytes, more than can be read at once; use bash for parts of it.")
        with tempfile.TemporaryDirectory(prefix="nel-read-") as folder:
            target = Path(folder) / "file"
            await self._sandbox.download(path, target)
            data = target.read_bytes()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if whole:
                raise _Refused(f"{path} is not UTF-8 text; replacing in it would damage it.") from error
            return data.decode("utf-8", "replace")

    async def _write(self, path: str, content: str) -> ToolResult:
        seen = await self._look(path)
        data = content.encode("utf-8", "surrogatepass")
        await self._sandbox.upload(data, path)
        # Transfers set neither mode nor time: a script stays executable, and make and Python see that it changed.
        mode = seen[0] if seen is not None else ""
        await self._sandbox.exec(["sh", "-c", _FRESHEN, "sh", path, mode], timeout=30.0)
        return ToolResult(f"Written {len(data)} bytes to {path}.")


def shown(result: ExecResult, timeout: float) -> ToolResult:
    """What a command left behind, as a model reads it; a failure says its exit code first."""
    parts = [result.stdout.rstrip("\n")] if result.stdout.strip() else []
    if result.stderr.strip():
        parts.append(f"STDERR:\n{result.stderr.rstrip()}")
    body = "\n".join(parts) or "(no output)"
    if result.timed_out:
        return ToolResult(f"[timed out after {timeout:g} s; output so far]\n{body}", is_error=True)
    if result.out_of_memory:
        body = f"[out of memory]\n{body}"
    if result.exit_code != 0:
        return ToolResult(f"[exit code {result.exit_code}]\n{body}", is_error=True)
    return ToolResult(body)


def _numbered(text: str, view_range: Any) -> str:
    lines = text.splitlines()
    first, last = 1, len(lines)
    if view_range is not None:
        if not (isinstance(view_range, list) and len(view_range) == 2 and all(isinstance(n, int) for n in view_range)):
            raise _Refused("view_range is a list of two line numbers.")
        first, last = max(1, view_range[0]), len(lines) if view_range[1] == -1 else min(view_range[1], len(lines))
        if first > last:
            raise _Refused(f"view_range {view_range} is outside of the file, which has {len(lines)} lines.")
    return "\n".join(f"{number:6d}\t{lines[number - 1]}" for number in range(first, last + 1)) or "(empty file)"


def _text(arguments: JsonDict, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        given = "missing" if value is None else f"not a string but {type(value).__name__}"
        raise _Refused(f"The argument {name!r} is {given}.")
    return value
