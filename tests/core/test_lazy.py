"""Regular expressions that are compiled on first use."""

import re

import pytest

from nemo_evaluator.core.lazy import lazy_pattern


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
