"""A folder inside a folder where its next content is made, so that what is there stays whole until that is done."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError

_NAME: Final = ".merging"


@contextmanager
def workplace(target: Path, *, prepare: Callable[[], None]) -> Iterator[Path]:
    """An empty folder in ``target``, for one process at a time, gone afterwards.

    ``prepare`` is called before it is made, unless an earlier process was killed here: then what lies around is its.
    """
    room = target / _NAME
    if not room.exists():
        prepare()
    room.mkdir(parents=True, exist_ok=True)
    with (room / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another process is merging into {target}", hint="wait for it") from error
        for path in room.iterdir():
            if path.name != "lock":
                path.unlink()
        yield room
        shutil.rmtree(room)
