"""The shell text around a command in a container: its end is told in words, and nothing that it started is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Processes carry the number of their command in the environment, and a command's end takes along those that carry its
# number. What carries none is touched only where process 1 is our own: there, and only there, every process we can see
# belongs to the sandbox. Without a mark and with a parent outside (0) is a command that is just being let in: it gets
# its mark in a moment, and is left alone. Three rounds, since a process may fork between the look and the kill.
_MARK: Final = """[ -n "$token" ] || exit 125
mark_of() { { tr '\\0' '\\n' < "/proc/$1/environ"; } 2>/dev/null | sed -n 's/^NEL_EXEC=//p' | head -n 1; }
parent_of() { sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null; }
ours=
[ "$(mark_of 1)" = main ] && ours=yes
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
_WRAP: Final = f"""
token=$1 background=$2 cwd=$3
shift 3
if cd "$cwd"; then "$@"; code=$?; else code=126; fi
oom=0
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  if [ -r $file ]; then while read -r key value; do [ "$key" = oom_kill ] && oom=$value; done < $file; fi
done
set -- /proc/[0-9]*
if [ "$background" = no ] && [ $# -gt 3 ]; then
  {_MARK}{_OWN}
  set -- /proc/[0-9]*
fi
for stream in 1 2; do
  printf '\\000NEL-END %s %s %s %s\\000' "$token" "$code" "$oom" $(($# - 3)) >&$stream
done
exit $code
"""
_KILL: Final = f"token=$1 keep=$2\n{_MARK}{_REST}\nexit 0"


def wrapped(argv: list[str], token: str, cwd: str, *, background: bool) -> list[str]:
    """The argument list that runs ``argv`` and reports its end on both streams."""
    return ["sh", "-c", _WRAP, "sh", token, "yes" if background else "no", cwd, *argv]


def killer(token: str, keep: str) -> list[str]:
    """The argument list that kills a command and, in a process space of our own, everything that is not in ``keep``."""
    return ["sh", "-c", _KILL, "sh", token, keep]


class Trailer:
    """Passes output on and takes the wrapper's last words out of it.

    They stand at the end of both streams, because an engine carries each at its own pace: the end is here only when
    both have said so.
    """

    def __init__(self, token: str, emit: Callable[[str, bytes], None]) -> None:
        self._mark = b"\0NEL-END " + token.encode() + b" "
        self._emit = emit
        self._held = {"stdout": b"", "stderr": b""}
        self._ended: set[str] = set()
        self.code: int | None = None
        self.oom_kills = 0
        # How many processes there are besides the container's own two and the wrapper.
        self.left = 0

    @property
    def complete(self) -> bool:
        """True when both streams have come to their end."""
        return len(self._ended) == len(self._held)

    def take(self, stream: str, data: bytes) -> None:
        """More output."""
        if stream in self._ended:
            # Something that was left running still writes; it is not the command's.
            return
        held = self._held[stream] + data
        at = held.find(self._mark)
        if at >= 0 and (end := held.find(b"\0", at + 1)) > 0:
            self.code, self.oom_kills, self.left = map(int, held[at + len(self._mark) : end].split())
            self._ended.add(stream)
            self._pass(stream, held[:at])
            self._held[stream] = b""
            return
        # The words may come in two pieces: hold back what could be their beginning.
        size = at if at >= 0 else self._safe(held)
        self._pass(stream, held[:size])
        self._held[stream] = held[size:]

    def flush(self) -> None:
        """No more is coming: pass on what was held back."""
        for stream, held in self._held.items():
            self._pass(stream, held)
            self._held[stream] = b""

    def _safe(self, held: bytes) -> int:
        at = held.rfind(b"\0")
        return at if at >= 0 and self._mark.startswith(held[at : at + len(self._mark)]) else len(held)

    def _pass(self, stream: str, data: bytes) -> None:
        if data:
            self._emit(stream, data)
