"""A run of a million problems: its CPU and memory. It takes half an hour and 10 GB of disk."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.spine import MILLION, peak_memory


def rows() -> list[dict[str, object]]:
    """The limits of a run of a million problems."""
    with tempfile.TemporaryDirectory(prefix="nel-bench-") as folder:
        return peak_memory(Path(folder), MILLION)
