"""What the operating system refuses (space, rights, descriptors) as an error that explains how to fix it."""

import errno
from typing import Final

from nemo_evaluator.core.errors import EXIT_FAILED, NelError

_RESUME: Final = "then run the same command with --resume: finished answers are reused"
_OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE)
_HINTS: Final = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "free some space on that disk (df -h)"),
    **dict.fromkeys(
        (errno.EROFS, errno.EACCES, errno.EPERM),
        "make it writable, or choose another folder with -o DIR",
    ),
    **dict.fromkeys(_OUT_OF_FILES, "raise the limit (ulimit -n 4096) or lower max_concurrent"),
}


class StorageError(NelError):
    """Something could not be written or opened."""

    exit_code = EXIT_FAILED


def storage_error(error: OSError, place: object = None) -> StorageError:
    """The error for users behind an OSError; ``place`` where the error itself does not know the file."""
    where = place or error.filename2 or error.filename
    what = error.strerror or str(error)
    hint = f"{_HINTS.get(error.errno or 0, 'check the disk')}, {_RESUME}"
    return StorageError(f"{where}: {what}" if where else what, hint=hint)


def out_of_files(error: BaseException) -> OSError | None:
    """The OSError behind an error that says that no more files or connections can be opened, if there is one."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _OUT_OF_FILES:
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
