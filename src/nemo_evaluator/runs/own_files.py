"""Whether the files of a benchmark's folder are its own: a folder of somebody else may hold links and pipes."""

import os
import stat
from pathlib import Path

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.store.layout import OWN
from nemo_evaluator.store.run_registry import FILE as RUN_FILE


def refuse_foreign_files(folder: Path) -> None:
    """Make sure that nel reads nothing through a folder that is not in it.

    Args:
        folder: The folder of a benchmark, or the one in which a bundle lies.

    Raises:
        UsageError: A file that nel would read is a link out of the run's folder, a pipe or a device.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError:
        # There is no such folder: whoever reads in it says so.
        return
    for entry in entries:
        # An index that is no plain file is never opened, but built anew.
        if OWN.fullmatch(entry.name) and not entry.name.startswith("index.sqlite"):
            _refuse_foreign(entry, folder)


def _refuse_foreign(entry: os.DirEntry[str], folder: Path) -> None:
    path = Path(entry.path)
    if entry.is_symlink() and not path.resolve().is_relative_to(_boundary(folder)):
        raise UsageError(
            f"{path} leads out of the run's folder", hint="open the folder that it leads to"
        )
    try:
        mode = path.stat().st_mode
    except OSError:
        # It leads nowhere, or is gone already.
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise UsageError(
            f"{path} is neither a file nor a folder", hint="was the folder copied as a whole?"
        )


def _boundary(folder: Path) -> Path:
    """The folder of the run, as far as one is known; else that of the benchmark."""
    whole = folder.parent
    if (whole / RUN_FILE).is_file():
        return whole.resolve()
    return folder.resolve()
