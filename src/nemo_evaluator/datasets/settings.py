"""Where rows may come from: mirror, lock, offline and frozen modes, and the cache folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import cache_folder
from nemo_evaluator.core.values import dataclass, replace

if TYPE_CHECKING:
    from nemo_evaluator.config import DatasetsConfig

_TRUE = {"1", "true", "yes", "on"}
LOCK_NAME = "nel-data.lock.json"


@dataclass(frozen=True, slots=True)
class DataSettings:
    """How datasets are resolved. ``None`` means: as the environment variable says."""

    mirror: Path | None = None
    lock: Path | None = None
    offline: bool | None = None
    frozen: bool | None = None


_current = DataSettings()


def configure(settings: DataSettings | None = None, **changes: Any) -> DataSettings:
    """Replace the settings of this process (or some of them) and return those that held before."""
    global _current
    before = _current
    _current = replace(settings or _current, **changes)
    return before


def use_datasets(data: DatasetsConfig) -> None:
    """Make the config's dataset settings those of this process."""
    mirror, lock = (Path(given) if given else None for given in (data.mirror, data.lock))
    configure(
        DataSettings(
            mirror=mirror, lock=lock, offline=data.offline or None, frozen=data.frozen or None
        )
    )


def mirror_dir() -> Path | None:
    """The mirror in force: ``datasets.mirror`` of the config, else ``NEL_DATA_MIRROR``."""
    chosen = _current.mirror or (
        Path(value) if (value := os.environ.get("NEL_DATA_MIRROR")) else None
    )
    if chosen is not None and not chosen.expanduser().is_dir():
        hint = "fix datasets.mirror or NEL_DATA_MIRROR, or fill one with: nel data mirror BENCHMARK --to DIR"
        raise UsageError(f"the dataset mirror {chosen} is not a folder", hint=hint)
    if chosen:
        return chosen.expanduser()
    return None


def lock_file() -> Path:
    """The lock in force: as set, else ``nel-data.lock.json`` of this folder if it exists, else the user's own."""
    if _current.lock is not None:
        return _current.lock
    value = os.environ.get("NEL_DATA_LOCK")
    if value:
        return Path(value)
    local = Path(LOCK_NAME)
    if local.exists():
        return local
    return cache_dir() / LOCK_NAME


def is_offline() -> bool:
    """True when nothing may be fetched."""
    return _is_set(_current.offline, "NEL_OFFLINE", "HF_HUB_OFFLINE")


def is_frozen() -> bool:
    """True when a dataset that differs from its lock entry, or has none, is refused."""
    return _is_set(_current.frozen, "NEL_DATA_FROZEN")


def _is_set(chosen: bool | None, *variables: str) -> bool:
    if chosen is None:
        return any(os.environ.get(name, "").lower() in _TRUE for name in variables)
    return chosen


def cache_dir() -> Path:
    """The first writable of ``NEL_CACHE_DIR``, ``XDG_CACHE_HOME/nel``, ``~/.cache/nel`` and the temporary folder."""
    wanted = [
        os.environ.get("NEL_CACHE_DIR"),
        str(cache_folder()),
        str(Path.home() / ".cache" / "nel"),
        f"{tempfile.gettempdir()}/nel-{os.getuid()}",
    ]
    for candidate in filter(None, wanted):
        folder = Path(candidate) / "datasets"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    raise UsageError(
        "no folder to keep datasets in can be written",
        hint="set NEL_CACHE_DIR to a writable folder",
    )
