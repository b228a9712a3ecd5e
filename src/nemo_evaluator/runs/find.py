"""Which bundles a set of paths means: the newest of each task, past runs and merged shards left out."""

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
    """The bundle files under ``paths``, sorted; a file is taken as it is, a folder is searched to its depth.

    Raises UsageError when a path is missing or when there is no bundle at all.
    """
    if isinstance(paths, str | Path):
        given = [Path(paths)]
    else:
        given = [Path(path) for path in paths]
    found = dict.fromkeys(file for path in given for file in _under(path))
    if not found:
        raise UsageError(
            f"no bundle (eval-*.json) under {', '.join(map(str, given))}",
            hint="give the output directory of a finished run",
        )
    return list(found)


def find_runs(path: Path) -> list[Bundle]:
    """All bundles under a path: a bundle file, a task folder, or any folder above task folders.

    Of several bundles of one benchmark in a folder the newest counts; ``previous/`` and merged shards are left out.
    Bundles that cannot be read are an error: a gate must not overlook a benchmark.
    """
    return [load_bundle(file) for file in _under(path)]


def task_folders(root: Path) -> list[Path]:
    """The folders at and under a folder that hold a journal; past runs are left out."""
    found = [path.parent for path in files_under(root, "journal.jsonl")]
    return [folder for folder in found if PREVIOUS not in folder.relative_to(root).parts]


def _under(root: Path) -> list[Path]:
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
    # Where a folder would be if it were no part of a shard.
    wholes = {folder: _without_shard(folder, root) for folder, _ in newest}
    merged = {whole for folder, whole in wholes.items() if whole == folder}
    return sorted(
        path
        for (folder, _), (_, path) in newest.items()
        if wholes[folder] == folder or wholes[folder] not in merged
    )


def _without_shard(folder: Path, root: Path) -> Path:
    return root.joinpath(
        *(part for part in folder.relative_to(root).parts if not SHARD.fullmatch(part))
    )
