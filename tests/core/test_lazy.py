"""Regular expressions that are compiled on first use, and schemas without a search for plugins."""

import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nemo_evaluator.core.lazy import lazy_pattern, without_plugins


def test_an_expression_is_compiled_when_it_is_first_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    library = re.compile

    def counted(text: str, flags: int) -> re.Pattern[str]:
        compiled.append(text)
        return library(text, flags)

    monkeypatch.setattr(re, "compile", counted)
    digits = lazy_pattern("a([0-9]+)", re.IGNORECASE)
    assert not compiled
    assert digits.findall("A1 a22") == ["1", "22"] and digits.sub("x", "A1 b") == "x b"
    assert digits.flags & re.IGNORECASE
    count = len(compiled)
    assert digits.findall("a3") == ["3"] and len(compiled) == count


def test_threads_that_build_schemas_leave_the_environment_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYDANTIC_DISABLE_PLUGINS", raising=False)
    inside = threading.Event()

    def build() -> None:
        with without_plugins(), without_plugins():
            inside.set()
            time.sleep(0.05)

    with ThreadPoolExecutor() as threads:
        first = threads.submit(build)
        inside.wait()
        second = threads.submit(build)
        first.result()
        second.result()
    assert "PYDANTIC_DISABLE_PLUGINS" not in os.environ
