"""The shell text around a command in a container: its end is told in words, and nothing that it started is left."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from nemo_evaluator.core.errors import SandboxError

_PRIME: Final = 2**31 - 1
_ROOM: Final = 1024
# The longest last words that can be true.
_LONGEST: Final = 64
# What becomes of processes that a command leaves: killed, left alone, or kept alive by a wrapper that does not end.
Rest: TypeAlias = Literal["kill", "leave", "hold"]
# Processes carry the number of their command in the environment, and a command's end takes along those that carry its
# number. What carries none is touched only where process 1 is our own, or the init of an Apptainer instance: there, and
# only there, every process we can see belongs to the sandbox. Without a mark and with a parent outside (0) is a command
# that is just being let in: it gets its mark in a moment, and is left alone. Three rounds, since a process may fork
# between the look and the kill.
_MARK: Final = """[ -n "$token" ] || exit 125
mark_of() { { tr '\\0' '\\n' < "/proc/$1/environ"; } 2>/dev/null | sed -n 's/^NEL_EXEC=//p' | head -n 1; }
parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null; }
ours=
[ "$(mark_of 1)" != main ] || ours=yes
read -r init < /proc/1/comm
[ "$init" != appinit ] || ours=yes
"""
_REAP: Final = """
for round in 1 2 3; do
  hit=
  for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    if [ "$pid" = 1 ] || [ "$pid" = $$ ]; then continue; fi
    mark=$(mark_of "$pid")
    if [ "$mark" != "$token" ]; then
      [ "$ours" = yes ] || continue
      [ -n "$mark" ] || [ "$(parent_of "$pid")" != 0 ] || continue
      %s
    fi
    kill -9 "$pid" 2>/dev/null && hit=1
  done
  [ -n "$hit" ] || break
done
"""
_OWN: Final = _REAP % '[ -z "$mark" ] || continue'
_REST: Final = _REAP % 'case " $keep " in *" ${mark:-?} "*) continue ;; esac'
# What the kernel killed for want of memory: in the command's own group where the host's tree is visible, else in the
# container's, which is the root of the tree that it sees.
_OOM: Final = """
nel_oom() {
  [ -r /proc/self/cgroup ] || return 0
  while IFS=: read -r _ nel_key nel_value; do
    case $nel_key in memory) nel_v1=$nel_value ;; '') nel_v2=$nel_value ;; esac
  done < /proc/self/cgroup
  for nel_file in "/sys/fs/cgroup/memory$nel_v1/memory.oom_control" "/sys/fs/cgroup$nel_v2/memory.events" \\
      /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$nel_file" ] || continue
    while read -r nel_key nel_value; do [ "$nel_key" != oom_kill ] || nel_kills=$nel_value; done < "$nel_file"
    return 0
  done
}
"""
# Both words end their line, because some clients carry nothing but whole lines.
# Until the command has run, only names that nobody else uses: assigning to an exported one would change it for it.
# The seal comes as the first line of stdin and is nowhere but in this shell's memory: not in its arguments, not in an
# environment, not in a file or pipe that the command could open.
_WRAP: Final = f"""
nel_token=$1 nel_rest=$2 nel_own=$3 nel_cwd=$4 nel_stdin=$5 nel_kills=0
shift 5
read -r nel_factor nel_offset
[ "$nel_stdin" = yes ] || exec < /dev/null
for nel_stream in 1 2; do printf '\\000NEL-BEGIN %s\\000\\n' "$nel_token" >&$nel_stream; done
{_OOM}
nel_oom
nel_before=$nel_kills
if cd "$nel_cwd"; then "$@"; code=$?; else code=126; fi
nel_oom
token=$nel_token
set -- /proc/[0-9]*
if [ "$nel_rest" = kill ] && [ $# -gt "$nel_own" ]; then
  {_MARK}{_OWN}
  set -- /proc/[0-9]*
fi
left=$(($# - nel_own)) kills=$((nel_kills - nel_before))
[ $left -ge 0 ] || left=0
tag=$(((nel_factor * (code * {_ROOM * _ROOM} + kills % {_ROOM} * {_ROOM} + left % {_ROOM}) + nel_offset) % {_PRIME}))
for stream in 1 2; do
  printf '\\000NEL-END %s %s %s %s %s\\000\\n' "$token" $code $((kills % {_ROOM})) $((left % {_ROOM})) $tag >&$stream
done
[ "$nel_rest" != hold ] || exec sleep 2147483647 > /dev/null 2>&1
exit 0
"""
_UNPACK: Final = """while [ "$1" != -- ]; do
  eval "export $1=\\"\\$NEL_ENV_$1\\""; unset "NEL_ENV_$1"; shift
done
shift
exec "$@"
"""
_KILL: Final = f"token=$1 keep=$2\n{_MARK}{_REST}\nexit 0"


class Seal:
    """Two secret numbers with which the wrapper signs a command's end; one signature says nothing about another's.

    The token of a command stands in its environment, so anything inside can print last words with it. They count only
    with the tag ``factor * words + offset`` (modulo a prime); a tag that was read from the output fits no other end.
    """

    def __init__(self) -> None:
        self._factor, self._offset = 1 + secrets.randbelow(_PRIME - 1), secrets.randbelow(_PRIME)

    @property
    def line(self) -> bytes:
        """What the wrapper reads before the command's own stdin."""
        return f"{self._factor} {self._offset}\n".encode()

    def opened(self, words: bytes) -> tuple[int, int, int] | None:
        """(exit code, kills for want of memory, processes left), if the wrapper said so."""
        numbers = words.split()
        if len(numbers) != 4 or not all(number.isdigit() for number in numbers):
            return None
        code, kills, left, tag = map(int, numbers)
        value = (code * _ROOM + kills) * _ROOM + left
        return (code, kills, left) if (self._factor * value + self._offset) % _PRIME == tag else None


def wrapped(argv: list[str], token: str, cwd: str, rest: Rest, own: int = 3, *, stdin: bool = False) -> list[str]:
    """The argument list that runs ``argv`` and reports its begin and its end on both streams.

    Its stdin must begin with the line of a seal; the rest is the command's, where ``stdin`` says that it has one.
    ``own`` is how many processes there are where a command left none: the container's (a shell and its sleep) and the
    wrapper. With more than those, what the command left is looked for.
    Its own exit code says nothing: a client that sees another than 0 would add remarks to the command's output.
    """
    return ["/bin/sh", "-c", _WRAP, "sh", token, rest, str(own), cwd, "yes" if stdin else "no", *argv]


def carried(argv: list[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """``argv`` so that it finds ``env`` inside, and the variables that the client must carry there for it.

    They travel under names that nobody else sets: an image's own value, or a runtime's, would win over ours.
    """
    if bad := [name for name in env if not (name.isidentifier() and name.isascii())]:
        raise SandboxError(f"{bad[0]!r} cannot be a variable in a shell", hint="use letters, digits and _")
    variables = {f"NEL_ENV_{name}": value for name, value in env.items()}
    return ["/bin/sh", "-c", _UNPACK, "sh", *env, "--", *argv], variables


def killer(token: str, keep: str) -> list[str]:
    """The argument list that kills a command and, in a process space of our own, everything that is not in ``keep``."""
    return ["/bin/sh", "-c", _KILL, "sh", token, keep]


class Trailer:
    """Passes output on and takes the wrapper's first and last words out of it.

    What comes before the first words is the client's own (a runtime that greets or warns). The last words stand at the
    end of both streams, because an engine carries each at its own pace: the end is here only when both have said so.
    """

    def __init__(self, token: str, seal: Seal, emit: Callable[[str, bytes], None]) -> None:
        self._seal = seal
        self._first = b"\0NEL-BEGIN " + token.encode() + b"\0\n"
        self._mark = b"\0NEL-END " + token.encode() + b" "
        self._emit = emit
        self._before = {"stdout": b"", "stderr": b""}
        self._held = {"stdout": b"", "stderr": b""}
        self._ended: set[str] = set()
        self.code: int | None = None
        self.oom_kills = 0
        # How many processes there are besides the container's own and the wrapper.
        self.left = 0

    @property
    def begun(self) -> bool:
        """True when the command was run."""
        return len(self._before) < len(self._held)

    @property
    def greeting(self) -> str:
        """What the client said of its own before the command, or instead of it."""
        return b"".join(self._before.values()).decode("utf-8", "replace").strip()

    @property
    def complete(self) -> bool:
        """True when both streams have come to their end."""
        return len(self._ended) == len(self._held)

    def take(self, stream: str, data: bytes) -> None:
        """More output."""
        if stream in self._ended:
            # Something that was left running still writes; it is not the command's.
            return
        if stream in self._before:
            said = self._before[stream] + data
            at = said.find(self._first)
            if at < 0:
                self._before[stream] = said
                return
            del self._before[stream]
            data = said[at + len(self._first) :]
        held = self._held[stream] + data
        at = held.find(self._mark)
        while at >= 0:
            begin = at + len(self._mark)
            end = held.find(b"\0", begin, begin + _LONGEST)
            if end < 0 and len(held) < begin + _LONGEST:
                break
            ended = self._seal.opened(held[begin:end]) if end > 0 else None
            if ended is not None:
                self.code, self.oom_kills, self.left = ended
                self._ended.add(stream)
                self._pass(stream, held[:at])
                self._held[stream] = b""
                return
            # Somebody else's words: output like any other.
            at = held.find(self._mark, begin)
        # The words may come in two pieces: hold back what could be their beginning.
        size = at if at >= 0 else self._safe(held)
        self._pass(stream, held[:size])
        self._held[stream] = held[size:]

    def flush(self) -> None:
        """No more is coming: pass on what was held back."""
        for stream, said in self._before.items():
            self._pass(stream, said)
        for stream, held in self._held.items():
            self._pass(stream, held)
            self._held[stream] = b""

    def _safe(self, held: bytes) -> int:
        at = held.rfind(b"\0")
        return at if at >= 0 and self._mark.startswith(held[at : at + len(self._mark)]) else len(held)

    def _pass(self, stream: str, data: bytes) -> None:
        if data:
            self._emit(stream, data)
