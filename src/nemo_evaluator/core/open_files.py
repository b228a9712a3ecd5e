"""How many files and connections this process may have open, and which failures mean that it has too many.

Connections are capped at a share of the limit, so that nobody who opens them takes the files that others need.
"""

import errno
import sys
from typing import Final

if sys.platform != "win32":
    import resource

# More than any run needs; some programs that we start close every number up to the limit, one by one.
_MOST: Final = 65_536
_UNKNOWN: Final = 1024
# What the system says when this process or this machine has run out of something, not when a server fails.
OWN_FAULTS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
)


def raise_limit() -> int:
    """Raise the soft limit of open files towards the hard one.

    Returns:
        The soft limit from now on.
    """
    if sys.platform == "win32":
        return _UNKNOWN
    soft_limit, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard_limit == resource.RLIM_INFINITY:
        target = _MOST
    else:
        target = min(_MOST, hard_limit)
    if soft_limit != resource.RLIM_INFINITY and soft_limit < target:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard_limit))
        except (OSError, ValueError):
            # A system may have a lower limit of its own (macOS has); the soft one stays as it is.
            return soft_limit
        return target
    return _MOST if soft_limit == resource.RLIM_INFINITY else soft_limit


def is_own_fault(error: BaseException | None) -> bool:
    """Whether a connection failed because this side has run out of files, memory or ports."""
    return isinstance(error, OSError) and error.errno in OWN_FAULTS
