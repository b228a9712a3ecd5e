"""The built-in benchmarks, one small file each, written with the @benchmark API and imported when they are named."""

from __future__ import annotations

from typing import Final

# Benchmark name -> module of this room.
MODULES: Final[dict[str, str]] = {
    "gsm8k": "gsm8k",
    "mmlu": "mmlu",
    "quickstart": "quickstart",
}
