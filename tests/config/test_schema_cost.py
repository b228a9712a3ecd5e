"""Building the schemas of a config is a part of every start: what makes it slow is kept out."""

import os
import types
from collections.abc import Iterator

import pytest
from pydantic import BaseModel
from pydantic.plugin import _loader

from nemo_evaluator.config import groups
from nemo_evaluator.config.fields import Model
from nemo_evaluator.store.run_registry import _adapter


@pytest.mark.parametrize("before", [None, "some_plugin"])
def test_nothing_is_searched_for_plugins(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    """Pydantic would read the metadata of every installed package, for our schemas in vain."""
    name = "PYDANTIC_DISABLE_PLUGINS"
    monkeypatch.delenv(name, raising=False)
    if before is not None:
        monkeypatch.setenv(name, before)
    monkeypatch.setattr(_loader, "_plugins", None)
    searched: list[str] = []

    def entry_points(group: str) -> tuple[()]:
        searched.append(group)
        return ()

    monkeypatch.setattr(_loader, "entry_points", entry_points)

    class Settings(Model):
        number: int = 1

    assert Settings.model_validate({"number": "2"}).number == 2
    assert _adapter.__wrapped__(int).validate_python("1") == 1
    assert not searched and os.environ.get(name) == before


def test_defaults_are_made_by_functions() -> None:
    """Of `list`, or of a method of the interpreter's own, pydantic parses the help to learn what it takes."""
    for kinds in (
        groups.SERVICES,
        groups.SANDBOXES,
        groups.SOLVERS,
        groups.METRICS,
        groups.CLUSTERS,
    ):
        assert [kinds.schema(word) for word in kinds.names()]
    slow = [
        f"{model.__name__}.{name}"
        for model in _schemas(Model)
        for name, field in model.model_fields.items()
        if field.default_factory is list
        or isinstance(field.default_factory, types.BuiltinMethodType)
    ]
    assert not slow


def _schemas(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in model.__subclasses__():
        if one.__module__.startswith("nemo_evaluator."):
            yield one
        yield from _schemas(one)
