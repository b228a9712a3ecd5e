"""Fixtures for end-to-end tests."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from nel_support import SUMS, Nel

from nemo_evaluator.testing import ScriptedServer


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    """Start scripted servers, each in a thread of its own; all are gone after the test."""
    with ExitStack() as stack:
        yield lambda *script, **options: stack.enter_context(ScriptedServer(*script, **options))


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
