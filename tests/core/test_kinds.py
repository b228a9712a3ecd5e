"""A kind is one file: nothing else changes when one is added."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kinds
from nemo_evaluator.core.parameters import settings_of

FILE = """
from typing import Literal
from pydantic import BaseModel
from nemo_evaluator.core.kinds import Kind

class Settings(BaseModel):
    type: Literal["two_words"] = "two_words"
    size: int = 1

KIND = Kind(Settings, lambda settings: settings.size)
"""


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose files are kinds."""
    folder = tmp_path / "a_room"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "base.py").write_text(
        "raise RuntimeError('only files that declare a kind are imported')\n"
    )
    (folder / "broken.py").write_text("KIND = 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "a_room"]:
        del sys.modules[name]


def test_a_new_file_is_a_new_word(room: Path) -> None:
    assert Kinds("thing", group="nobody.adds", home="a_room").names() == ["broken"]
    (room / "two_words.py").write_text(FILE)
    kinds = Kinds("thing", group="nobody.adds", home="a_room")
    assert "two_words" in kinds and "base" not in kinds and "../two_words" not in kinds
    assert kinds.names() == ["broken", "two_words"]
    assert kinds.build("two_words", kinds.schema("two_words")(size=3)) == 3
    with pytest.raises(UsageError) as caught:
        kinds.get("to_words")
    assert caught.value.hint == "did you mean 'two_words'?"
    dashed = Kinds("thing", group="nobody.adds", home="a_room", dashes=True)
    assert "two-words" in dashed and "two_words" not in dashed


def test_what_is_missing_says_so_and_names_the_rest(room: Path) -> None:
    (room / "broken.py").unlink()
    (room / "here.py").write_text(
        "from nemo_evaluator.core.kinds import Kind\nKIND = Kind(build=dict)\n"
    )
    (room / "later.py").write_text(
        "from nemo_evaluator.core.kinds import Kind\nKIND = Kind(missing='too early')\n"
    )
    kinds = Kinds("thing", group="nobody.adds", home="a_room")
    with pytest.raises(UsageError, match="thing 'later' is too early") as caught:
        kinds.build("later")
    assert caught.value.hint == "supported: here"


def test_parameters_are_settings() -> None:
    def build(uri: str, *, size: int, label: str = "x", **rest: object) -> None: ...

    schema = settings_of(build, ("uri",))
    assert list(schema.model_fields) == ["size", "label"]
    assert schema.model_validate({"size": "3", "other": 1}).size == 3  # type: ignore[attr-defined]

    class Strict:
        def __init__(self, size: int = 1) -> None: ...

    with pytest.raises(ValueError, match="Extra inputs"):
        settings_of(Strict).model_validate({"seize": 2})
