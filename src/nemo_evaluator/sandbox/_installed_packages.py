"""Which installed packages may be a dependency of an agent's work rather than a part of the test runner."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from nemo_evaluator.sandbox.snapshot import Snapshot

_FOLDERS: Final = ("site-packages", "dist-packages")
# Of a package's metadata what nothing runs; its entry points could be plugins of a runner.
_METADATA: Final = (
    "METADATA", "RECORD", "WHEEL", "INSTALLER", "REQUESTED", "top_level.txt", "direct_url.json", "LICENSE*", "COPYING*",
    "NOTICE*", "AUTHORS*",
)  # fmt: skip
_PLUGINS: Final = ("pytest*", "_pytest*", "nose*", "unittest*", "coverage*", "hypothesis*")


def may_be_dependency(
    path: str, before: Snapshot, *, reserved: Collection[str], test_words: Collection[str]
) -> bool:
    """Return whether a new file may belong to a package that only the work imports.

    Args:
        path: The path of the file.
        before: The workspace at the start of the task.
        reserved: Modules that an interpreter or a test runner imports.
        test_words: All words in the task's tests.
    """
    parts = PurePosixPath(path).parts
    folder_depths = [depth for depth, part in enumerate(parts) if part in _FOLDERS]
    if not folder_depths or folder_depths[0] + 1 >= len(parts):
        return False
    depth = folder_depths[0] + 1
    top = parts[depth]
    top_path = "/".join(parts[: depth + 1])
    if any(other == top_path or other.startswith(f"{top_path}/") for other in before):
        return False
    if top.endswith(".dist-info"):
        return any(fnmatchcase(parts[-1], pattern) for pattern in _METADATA)
    module = top.split(".")[0]
    if module in reserved or module in test_words:
        return False
    return not any(fnmatchcase(module, pattern) for pattern in _PLUGINS)
