"""Fixtures for end-to-end tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from nel_support import SUMS, Nel, scripted_server


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start scripted servers; all are gone after the test."""
    with ExitStack() as stack:
        yield lambda *flags: stack.enter_context(scripted_server(*flags))


@pytest.fixture
def nel(tmp_path: Path) -> Nel:
    return Nel(tmp_path)


@pytest.fixture
def sums(tmp_path: Path) -> Callable[[int], str]:
    """Write a benchmark file with so many problems; returns its name."""

    def write(size: int) -> str:
        (tmp_path / "sums.py").write_text(SUMS.format(size=size))
        return "sums.py"

    return write
