"""Checks that a benchmark's files belong to it, because a folder from somebody else may hold links and pipes."""

import os
import stat
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.store.layout import OWN
from nemo_evaluator.store.run_registry import FILE as RUN_FILE


def refuse_foreign_files(folder: Path) -> None:
    """Check that nel reads nothing outside of a folder through it.

    Args:
        folder: The folder of a benchmark, or the one that holds a bundle.

    Raises:
        UsageError: A file that nel would read is a link out of the run's folder, a pipe or a device.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        # There is no such folder; the code that reads it reports that.
        return
    for entry in entries:
        # An index that is not a regular file is never opened but rebuilt.
        if OWN.fullmatch(entry.name) and not entry.name.startswith("index.sqlite"):
            _refuse_foreign(entry, folder)


def _refuse_foreign(entry: os.DirEntry[str], folder: Path) -> None:
    """Raise UsageError for a link out of the run's folder, a pipe or a device."""
    path = Path(entry.path)
    if entry.is_symlink() and not path.resolve().is_relative_to(_boundary(folder)):
        raise UsageError(
            f"{path} leads out of the run's folder", hint="open the folder that it leads to"
        )
    try:
        mode = path.stat().st_mode
    except OSError:
        # The link is broken, or the file is already gone.
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(
            f"{path} is neither a file nor a folder", hint="was the folder copied as a whole?"
        )


def _boundary(folder: Path) -> Path:
    """Return the folder of the run if the parent folder is one, otherwise the folder of the benchmark."""
    parent = folder.parent
    if (parent / RUN_FILE).is_file():
        return parent.resolve()
    return folder.resolve()
