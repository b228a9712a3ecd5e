"""The number of files a process may hold open; a wide run needs one per connection."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import resource


def raise_file_limit(wanted: int) -> None:
    """Raise the soft limit of open files to ``wanted``, as far as the hard limit allows."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
