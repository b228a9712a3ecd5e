"""What the schema knows and this version cannot run: refused by name, all at once, before anything starts."""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from nemo_evaluator.config._document import Path
from nemo_evaluator.config.cross_check import Finding
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.config.fields import NotYet
from nemo_evaluator.config.kinds import KindOf, marks


def unsupported(config: EvalConfig) -> Iterator[Finding]:
    """Kinds whose declaration says ``missing``, and settings that are marked ``NotYet``."""
    return _unsupported(config, (), list(config.sandboxes.values()))


def _unsupported(model: BaseModel, path: Path, named: list[Any]) -> Iterator[Finding]:
    groups = {name: mark.kinds for name, mark in marks(type(model), KindOf)}
    for name, mark in marks(type(model), NotYet):
        if name in model.model_fields_set and getattr(model, name):
            yield Finding((*path, name), f"the setting {name!r} is {mark.reason}", "remove it")
    for name in type(model).model_fields:
        for place, one in _models(getattr(model, name), (*path, name)):
            if place[-1] == "sandbox" and one in named:
                # Spoken of where it is defined.
                continue
            kinds, word = groups.get(name), getattr(one, "type", "")
            if kinds is not None and (missing := kinds.get(word).missing) is not None:
                message = f"{kinds.kind} {word!r} is {missing}"
                yield Finding((*place, "type"), message, f"supported: {', '.join(kinds.ready())}")
            yield from _unsupported(one, place, named)


def _models(value: Any, path: Path) -> Iterator[tuple[Path, BaseModel]]:
    """The schema objects in a field, in lists and in mappings."""
    if isinstance(value, BaseModel):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _models(item, (*path, str(key)))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _models(item, (*path, number))
