"""Finds the bundles that paths refer to: the newest of each task, without archived runs and merged shards."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

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
        paths = [paths]
    search_paths = [Path(path) for path in paths]
    bundle_files: dict[Path, None] = {}
    for path in search_paths:
        bundle_files |= dict.fromkeys(_under(path))
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
    newest: dict[tuple[Path, str], _StampedBundle] = {}
    for path in files_under(root, "eval-*.json"):
        match = _BUNDLE.fullmatch(path.name)
        if match is None or PREVIOUS in path.relative_to(root).parts or not path.is_file():
            continue
        bundle = _StampedBundle(match["stamp"] or "", path)
        key = (path.parent, match["name"])
        newest[key] = max(newest.get(key, bundle), bundle)
    return sorted(_without_merged_shards([bundle.path for bundle in newest.values()], root))


class _StampedBundle(NamedTuple):
    """A bundle file with the time in its name; later ones are greater."""

    stamp: str
    path: Path


def _without_merged_shards(bundles: list[Path], root: Path) -> list[Path]:
    """Leave out the bundles of shards whose results were merged."""
    merged_folders: set[Path] = set()
    for path in bundles:
        if _without_shard(path.parent, root) == path.parent:
            merged_folders.add(path.parent)
    current: list[Path] = []
    for path in bundles:
        merged_folder = _without_shard(path.parent, root)
        if merged_folder == path.parent or merged_folder not in merged_folders:
            current.append(path)
    return current


def _without_shard(folder: Path, root: Path) -> Path:
    """Return the path of a folder without the parts that name shards."""
    parts = [part for part in folder.relative_to(root).parts if not SHARD.fullmatch(part)]
    return root.joinpath(*parts)
