"""Runs inside a sandbox: grades a workspace with a task's own code, out of reach of the programs that this code starts.

Only the standard library is available. The result is the part of stdout between two marks; they come by stdin, and are
in the memory of this process alone. Programs of the workspace that the task's code starts are children of this process,
so

- it cannot be dumped: nobody of the same user can read its memory, environment or descriptors, or attach to it;
- where it begins as root, it continues as a user without powers, who cannot change the Python that it runs on;
- code of the workspace is not run in it: a task's code that imports such code is refused;
- its files, with the task's code, are gone before any other program runs.
"""

import ctypes
import json
import os
import runpy
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

BEGUN = "the grading begins"
_PR_SET_DUMPABLE = 4
_NOBODY = 65534
_MOST_FILES = 200_000


class WorkspaceCodeError(Exception):
    """Code of the workspace was to be run in the grader."""


def _hide() -> None:
    """Protect this process from being dumped or attached to.

    Raises:
        OSError: The kernel refuses.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot protect the grader's memory")


def _give_up_root(workspace: str) -> None:
    """Continue as a user without powers, who owns the files of the workspace; does nothing unless root."""
    # A task's code starts programs with the interpreter that it runs on: others must be able to run it.
    interpreter = Path(sys.executable).resolve()
    open_to_all = all(
        path.stat().st_mode & stat.S_IXOTH for path in (interpreter, *interpreter.parents)
    )
    if os.geteuid() != 0 or not open_to_all:
        return
    count = 0
    for folder, folders, files in os.walk(workspace):
        for name in [".", *folders, *files]:
            count += 1
            if count <= _MOST_FILES:
                os.chown(f"{folder}/{name}", _NOBODY, _NOBODY, follow_symlinks=False)
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


def _refuse_code_of(workspace: str, refused: list[str]) -> None:
    """Let nothing of the workspace run in this process. Such a hook cannot be taken away again."""
    root = os.path.realpath(workspace) + os.sep

    def is_inside(name: Any) -> bool:
        return isinstance(name, str) and os.path.realpath(name).startswith(root)

    def watch(event: str, args: tuple[Any, ...]) -> None:
        name: Any = None
        if event == "exec":
            name = getattr(args[0], "co_filename", None)
        elif event == "import":
            name = args[1]
        elif event == "ctypes.dlopen":
            name = args[0]
        else:
            return
        if name and not str(name).startswith("<") and is_inside(name):
            refused.append(str(name))
            raise WorkspaceCodeError(name)

    sys.addaudithook(watch)


def _grade(code: str, transcript_file: str, workspace: str) -> dict[str, Any]:
    """Run a task's grading function.

    Args:
        code: The file with the function ``grade``.
        transcript_file: What the agent did, as JSON.
        workspace: The folder that the agent left.

    Returns:
        ``scores``, or the reason why there are none: ``raised`` or ``lacks``.
    """
    refused: list[str] = []
    grade = runpy.run_path(code)["grade"]
    transcript = json.loads(Path(transcript_file).read_text(encoding="utf-8"))
    # Programs that the task's code starts could read the right answers there.
    shutil.rmtree(Path(code).parent)
    _give_up_root(workspace)
    _hide()
    _refuse_code_of(workspace, refused)
    print(BEGUN, file=sys.stderr, flush=True)
    try:
        result: dict[str, Any] = {"scores": grade(transcript, workspace)}
    except ImportError as error:
        result = {"lacks": str(error)}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a task's code raises is its answer
        result = {"raised": f"{type(error).__name__}: {error}"[:300]}
    if refused:
        result = {
            "lacks": f"it would run code of the workspace in its own process: {refused[0][:200]}"
        }
    return result


def main() -> None:
    """Grade, and print the result between two marks."""
    _hide()
    mark = sys.stdin.readline().strip()
    # The descriptor is inherited by every program that the task's code starts.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    code, transcript_file, workspace = sys.argv[1:4]
    result = _grade(code, transcript_file, workspace)
    sys.stdout.write("\n" + mark + json.dumps(result) + mark)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
