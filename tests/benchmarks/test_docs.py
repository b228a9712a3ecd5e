"""The pages of docs/benchmarks are what the code says now."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_pages_are_current() -> None:
    spec = importlib.util.spec_from_file_location(
        "benchmark_docs", ROOT / "scripts" / "benchmark_docs.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = ROOT / "docs" / "benchmarks"
    assert {
        path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")
    } == module.pages(), "run python scripts/benchmark_docs.py"
