"""Checksums of big files, remembered by size and time of change."""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from nemo_evaluator.core.files import read_json, write_json
from nemo_evaluator.services.packaged import sha256_of


def _cache_file() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "nel" / "sha256.json"


def _known() -> dict[str, str]:
    try:
        known: dict[str, str] = read_json(_cache_file())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return known


def cached_sha256(path: Path) -> str:
    """The checksum of a file; computed again only when its size or time of change differs."""
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    known = _known()
    if key not in known:
        known[key] = sha256_of(path)
        try:
            write_json(_cache_file(), known)
        except OSError:
            # A read-only home costs time, not correctness.
            return known[key]
    return known[key]
