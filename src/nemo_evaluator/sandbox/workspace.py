"""The standard ways to prepare an agent's folder and to carry its work, as shell text for a working directory."""

import re
import shlex
from functools import cache, partial
from pathlib import Path
from typing import Final

_SHELL: Final = Path(__file__).parent / "shell"


@cache
def script(name: str) -> str:
    """Return a shell script of nel without its comments, with the scripts that it includes."""
    text = (_SHELL / f"{name}.sh").read_text()
    text = re.sub(
        r"^ *#include (\w+)\n", lambda include: script(include[1]), text, flags=re.MULTILINE
    )
    return re.sub(r"^ *#.*\n", "", text, flags=re.MULTILINE)


def _script(name: str, workdir: str) -> str:
    return f"set -- {shlex.quote(workdir)}\n{script(name)}"


# Each takes a working directory and gives shell text: it writes ``/output/workspace.tar`` in the agent's sandbox,
# applies ``/input/workspace.tar`` in the verifier's, or scrubs a git repository (exit code 0: only the base commit's
# past is left).
capture_command = partial(_script, "capture")
apply_command = partial(_script, "apply")
scrub_command = partial(_script, "scrub_git")


def snapshot_command(workdir: str, target: str) -> str:
    """Return shell text that writes the content of a working directory to ``target``, an archive."""
    return f"set -- {shlex.quote(workdir)} {shlex.quote(target)}\n{script('snapshot')}"
