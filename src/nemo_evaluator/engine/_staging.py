"""A folder inside a folder where its next content is made, so that what is there stays whole until that is done."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_NAME: Final = ".merging"


@contextmanager
def workplace(target: Path, *, prepare: Callable[[], None]) -> Iterator[Path]:
    """An empty folder in ``target``, gone afterwards; whoever makes it holds the lock of ``target``.

    ``prepare`` is called before it is made, unless an earlier process was killed here: then what lies around is its.
    """
    room = target / _NAME
    if not room.exists():
        prepare()
    room.mkdir(parents=True, exist_ok=True)
    for path in room.iterdir():
        path.unlink()
    yield room
    shutil.rmtree(room)
