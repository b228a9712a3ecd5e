"""Finds the bundles that paths refer to: the newest of each task, without archived runs and merged shards."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import files_under
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.store.layout import PREVIOUS

SHARD: Final = re.compile(r"shard_\d+")
_BUNDLE: Final = re.compile(r"eval-(?:(?P<stamp>\d{8}T\d{6}Z)-)?(?P<name>.+)\.json")


def find_bundles(paths: Path | str | Iterable[Path | str]) -> list[Path]:
    """Return the bundle files under ``paths``, sorted within each path.

    A file is returned as it is; a folder is searched recursively.

    Raises:
        UsageError: A path does not exist, or there is no bundle at all.
    """
    if isinstance(paths, str | Path):
        search_paths = [Path(paths)]
    else:
        search_paths = [Path(path) for path in paths]
    bundle_files = dict.fromkeys(file for path in search_paths for file in _under(path))
    if not bundle_files:
        raise UsageError(
            f"no bundle (eval-*.json) under {', '.join(map(str, search_paths))}",
            hint="give the output directory of a finished run",
        )
    return list(bundle_files)


def find_runs(path: Path) -> list[Bundle]:
    """Load all bundles under a path: a bundle file, a task folder, or any folder above task folders.

    Of several bundles of one benchmark in a folder the newest counts; ``previous/`` and merged shards are skipped.
    A bundle that cannot be read is an error, because a gate must not overlook a benchmark.
    """
    return [load_bundle(file) for file in _under(path)]


def task_folders(root: Path) -> list[Path]:
    """Return the folders at and under a folder that hold a journal, without archived runs."""
    folders = [path.parent for path in files_under(root, "journal.jsonl")]
    return [folder for folder in folders if PREVIOUS not in folder.relative_to(root).parts]


def _under(root: Path) -> list[Path]:
    """Return the current bundle files at or under a path.

    Raises:
        UsageError: The path does not exist.
    """
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise UsageError(
            f"{root} does not exist", hint="`nel eval runs` lists runs and their folders"
        )
    newest: dict[tuple[Path, str], tuple[str, Path]] = {}
    for path in files_under(root, "eval-*.json"):
        match = _BUNDLE.fullmatch(path.name)
        if match is not None and PREVIOUS not in path.relative_to(root).parts and path.is_file():
            key = path.parent, match["name"]
            newest[key] = max(newest.get(key, ("", path)), (match["stamp"] or "", path))
    # The path that each folder would have outside of a shard.
    unsharded = {folder: _without_shard(folder, root) for folder, _ in newest}
    merged = {
        folder_unsharded
        for folder, folder_unsharded in unsharded.items()
        if folder_unsharded == folder
    }
    return sorted(
        path
        for (folder, _), (_, path) in newest.items()
        if unsharded[folder] == folder or unsharded[folder] not in merged
    )


def _without_shard(folder: Path, root: Path) -> Path:
    """Return the path of a folder without the parts that name shards."""
    return root.joinpath(
        *(part for part in folder.relative_to(root).parts if not SHARD.fullmatch(part))
    )
