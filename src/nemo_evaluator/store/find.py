"""Which bundles a set of paths means: the newest of each task, past runs and merged shards left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.store.layout import PREVIOUS

SHARD: Final = re.compile(r"shard_\d+")
_BUNDLE: Final = re.compile(r"eval-(?:\d{8}T\d{6}Z-)?(?P<name>.+)\.json")


def find_bundles(paths: Path | str | Iterable[Path | str]) -> list[Path]:
    """The bundle files under ``paths``, sorted; a file is taken as it is, a folder is searched to its depth.

    Raises UsageError when a path is missing or when there is no bundle at all.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    found: dict[Path, None] = {}
    for path in given:
        if path.is_file():
            found[path] = None
        elif path.is_dir():
            found.update(dict.fromkeys(_in_folder(path)))
        else:
            raise UsageError(f"{path} does not exist", hint="`nel eval runs` lists runs and their folders")
    if not found:
        raise UsageError(
            f"no bundle (eval-*.json) under {', '.join(map(str, given))}",
            hint="give the output directory of a finished run",
        )
    return list(found)


def _in_folder(root: Path) -> list[Path]:
    newest: dict[tuple[Path, str], Path] = {}
    for path in sorted(root.rglob("eval-*.json")):
        if PREVIOUS in path.relative_to(root).parts or not path.is_file():
            continue
        match = _BUNDLE.fullmatch(path.name)
        if match:
            # Sorted by stamp, so the last one of a name in a folder is the newest.
            newest[path.parent, match["name"]] = path
    merged = {_without_shard(folder, root) for folder, _ in newest if not _shard_of(folder, root)}
    return [
        path
        for (folder, _), path in newest.items()
        if not _shard_of(folder, root) or _without_shard(folder, root) not in merged
    ]


def _shard_of(folder: Path, root: Path) -> bool:
    return any(SHARD.fullmatch(part) for part in folder.relative_to(root).parts)


def _without_shard(folder: Path, root: Path) -> tuple[str, ...]:
    return tuple(part for part in folder.relative_to(root).parts if not SHARD.fullmatch(part))
