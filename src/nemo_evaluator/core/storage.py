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
    """Create the error for users from an OSError.

    Args:
        error: What the operating system raised.
        place: The file or folder, where the error itself does not name one.
    """
    location = place or error.filename2 or error.filename
    reason = error.strerror or str(error)
    hint = f"{_HINTS.get(error.errno or 0, 'check the disk')}, {_RESUME}"
    return StorageError(f"{location}: {reason}" if location else reason, hint=hint)


def out_of_files(error: BaseException) -> OSError | None:
    """Return the OSError behind an error if no more files or connections can be opened, else None."""
    current_error: BaseException | None = error
    while current_error is not None:
        if isinstance(current_error, OSError) and current_error.errno in _OUT_OF_FILES:
            return current_error
        current_error = current_error.__cause__ or current_error.__context__
    return None
