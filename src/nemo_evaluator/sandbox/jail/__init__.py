"""The processes that hold a local sandbox: a keeper per evaluator, a warden per sandbox, an init per command.

They start without site-packages, in a few milliseconds, so everything in this folder uses the standard library alone.
"""

import sys
from pathlib import Path


def command(module: str, *words: str) -> list[str]:
    """The command line of a process that runs ``main`` of a module of this folder."""
    folder = str(Path(__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {folder!r}); from jail.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", code, *words]
