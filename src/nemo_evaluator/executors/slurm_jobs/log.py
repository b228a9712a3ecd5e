"""The logs of a run, read where they are: one file, or one for each shard."""

import shlex
from collections.abc import Iterator
from typing import Final

from nemo_evaluator.executors.slurm_jobs.host import Host
from nemo_evaluator.store.layout import LOG

# A job whose worker never came to write has said why in its own log.
_READ: Final = r"""
cd {folder} 2>/dev/null || exit 0
emit() {{ [ -s "$1" ] || return 1; size=$(stat -c %s "$1"); printf '\0%s\0%s\0' "$1" "$size"; {cut} | tr -d '\0'; }}
{emits}
[ -n "${{size-}}" ] || emit "$(ls -t logs/slurm-*.log 2>/dev/null | head -n 1)" {job_log}
true
"""


class LogReader:
    """Gives what is new each time it is asked."""

    def __init__(self, host: Host, folder: str, shards: int) -> None:
        self._host, self._folder = host, folder
        self._names = [*(f"shard_{number}/{LOG}" for number in range(shards)), LOG]
        self._read: dict[str, int] = {}
        self._partial: dict[str, str] = {}

    @property
    def found(self) -> bool:
        """Whether there was anything to read."""
        return bool(self._read)

    def lines(self, *, tail: int | None = None, last: bool = False) -> Iterator[str]:
        """New lines, or the last ``tail`` of each file. An unfinished one is kept back until there is no more."""
        cut = f'tail -n {tail} "$1"' if tail is not None else 'tail -c +"$2" "$1" | head -c $((size - $2 + 1))'
        emits = "\n".join(f"emit {shlex.quote(name)} {self._read.get(name, 0) + 1}" for name in self._names)
        job_log = max((size for name, size in self._read.items() if name not in self._names), default=0) + 1
        script = _READ.format(folder=shlex.quote(self._folder), cut=cut, emits=emits, job_log=job_log)
        parts = self._host.run(script).split("\0")[1:]
        for name, size, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            self._read[name] = int(size)
            prefix = f"{name.removesuffix(f'/{LOG}')}: " if name.startswith("shard_") else ""
            whole = self._partial.pop(name, "") + text
            for line in whole.splitlines(keepends=True):
                if line.endswith("\n") or last:
                    yield prefix + line
                else:
                    self._partial[name] = line
