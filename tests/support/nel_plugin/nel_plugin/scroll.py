"""An exporter: writes the names of benchmarks on a scroll."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


class Scroll:
    """Writes ``scroll.txt``."""

    def __init__(self, seal: str = "none") -> None:
        self._seal = seal

    def export(self, bundles: Sequence[Any], config: dict[str, Any]) -> list[str]:
        """Write it."""
        target = Path(config["output_dir"]) / "scroll.txt"
        target.write_text(f"{self._seal}: {', '.join(bundle.name for bundle in bundles)}\n")
        return [str(target)]
