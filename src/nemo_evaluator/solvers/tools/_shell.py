"""A persistent shell: each command runs in a new process, and finds what the last one left.

Working directory, variables, functions and options are carried over in a file inside the sandbox; background
processes live on. The command comes in on stdin and is evaluated as it is: exit codes, heredocs and a trailing ``&``
mean what they say.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from nemo_evaluator.core.errors import SandboxError

if TYPE_CHECKING:
    from nemo_evaluator.sandbox.base import ExecResult, Sandbox

# $1 is the file that keeps the state. A command that ends the shell (`exit 3`, `set -e`) is caught by the trap.
_BASH: Final = r"""
__nel_state=$1
__nel_command=$(cat)
exec </dev/null
__nel_save() {
  {
    __nel_code=$1 __nel_flags=$- __nel_pipefail=
    shopt -qo pipefail && __nel_pipefail=1
    set +eux
    trap - EXIT
  } 2>/dev/null
  {
    for __nel_name in $(compgen -v); do
      case $__nel_name in
        BASH*|COMP_*|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|LINENO|OPTERR|PIPESTATUS|PPID|RANDOM|SECONDS) ;;
        SHELLOPTS|SHLVL|SRANDOM|UID|_|__nel_*) ;;
        *) declare -p "$__nel_name" 2>/dev/null ;;
      esac
    done
    declare -f
    shopt -p
    alias -p
    printf 'cd -- %q\n' "$PWD"
    for __nel_flag in e u x f; do case $__nel_flags in *$__nel_flag*) echo "set -$__nel_flag" ;; esac; done
    [ -z "$__nel_pipefail" ] || echo 'set -o pipefail'
  } >"$__nel_state.new" && command mv -f "$__nel_state.new" "$__nel_state" && printf %s "$PWD" >"$__nel_state.cwd"
  exit "$__nel_code"
}
# One compound command, read whole before the model's text is: an unclosed quote in it cannot swallow our own lines.
{
  trap '__nel_save $?' EXIT
  [ ! -f "$__nel_state" ] || . "$__nel_state"
  eval "$__nel_command"
  { __nel_save $?; } 2>/dev/null
}
"""
# Where there is no bash, only the working directory is kept.
_SH: Final = r"""
__nel_state=$1
__nel_command=$(cat)
exec </dev/null
trap '__nel_code=$?; printf %s "$PWD" >"$__nel_state.cwd"; exit $__nel_code' EXIT
[ -f "$__nel_state.cwd" ] && cd "$(cat "$__nel_state.cwd")"
eval "$__nel_command"
"""
SCRIPTS: Final = (_BASH, _SH)


class Shell:
    """The shell of one problem."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._state = f"/tmp/.nel-shell-{uuid.uuid4().hex[:12]}"
        self._launch: list[str] | None = None

    async def run(self, command: str, timeout: float) -> ExecResult:
        """Run a command. Raises SandboxError when the sandbox failed."""
        if self._launch is None:
            found = await self._sandbox.exec(["sh", "-c", "command -v bash"], timeout=60.0)
            if found.timed_out:
                raise SandboxError("the sandbox did not answer within 60 s")
            self._launch = ["bash", "--norc", "--noprofile", "-c", _BASH] if found.ok else ["sh", "-c", _SH]
        return await self._sandbox.exec(
            [*self._launch, "bash", self._state], stdin=command.encode(), timeout=timeout, background=True
        )

    async def cwd(self) -> str:
        """The directory that the next command starts in."""
        kept = await self._sandbox.exec(["cat", f"{self._state}.cwd"], timeout=30.0, cwd="/")
        return kept.stdout if kept.ok and kept.stdout.startswith("/") else self._sandbox.spec.workdir
