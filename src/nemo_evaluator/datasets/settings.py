"""The sources that rows may come from: mirror, lock, offline and frozen modes, and the cache folder."""

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
    """Change the dataset settings of this process.

    Args:
        settings: The new settings; None to keep the current ones.
        **changes: Fields to change.

    Returns:
        The previous settings.
    """
    global _current
    previous = _current
    _current = replace(settings or _current, **changes)
    return previous


def use_datasets(data: DatasetsConfig) -> None:
    """Apply the dataset settings of a config to this process."""
    settings = DataSettings(
        mirror=Path(data.mirror) if data.mirror else None,
        lock=Path(data.lock) if data.lock else None,
        # None leaves the decision to the environment variable.
        offline=data.offline or None,
        frozen=data.frozen or None,
    )
    configure(settings)


def mirror_dir() -> Path | None:
    """Return the current mirror: ``datasets.mirror`` of the config, else ``NEL_DATA_MIRROR``; None without one.

    Raises:
        UsageError: The mirror is not a folder.
    """
    mirror = _current.mirror
    variable = os.environ.get("NEL_DATA_MIRROR")
    if mirror is None and variable:
        mirror = Path(variable)
    if mirror is None:
        return None
    folder = mirror.expanduser()
    if not folder.is_dir():
        hint = "fix datasets.mirror or NEL_DATA_MIRROR, or fill one with: nel data mirror BENCHMARK --to DIR"
        raise UsageError(f"the dataset mirror {mirror} is not a folder", hint=hint)
    return folder


def lock_file() -> Path:
    """Return the current lock file.

    It is the configured one, else ``NEL_DATA_LOCK``, else ``nel-data.lock.json`` in the working directory if that
    exists, else the one in the cache folder.
    """
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
    """Return whether downloads are disabled."""
    return _is_set(_current.offline, "NEL_OFFLINE", "HF_HUB_OFFLINE")


def is_frozen() -> bool:
    """Return whether a dataset must match its lock entry."""
    return _is_set(_current.frozen, "NEL_DATA_FROZEN")


def _is_set(chosen: bool | None, *variables: str) -> bool:
    if chosen is None:
        return any(os.environ.get(name, "").lower() in _TRUE for name in variables)
    return chosen


def cache_dir() -> Path:
    """Return the folder for cached datasets.

    It is in the first writable one of ``NEL_CACHE_DIR``, ``XDG_CACHE_HOME/nel``, ``~/.cache/nel`` and a temporary
    folder.

    Raises:
        UsageError: None of them is writable.
    """
    candidates = [
        os.environ.get("NEL_CACHE_DIR"),
        str(cache_folder()),
        str(Path.home() / ".cache" / "nel"),
        f"{tempfile.gettempdir()}/nel-{os.getuid()}",
    ]
    for candidate in filter(None, candidates):
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
