"""Finding the schema class and the field that stand behind a path of a config."""

import types
from collections.abc import Iterator
from functools import reduce
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nemo_evaluator.config._document import Path
from nemo_evaluator.config.kinds import KindOf, whole


def class_at(root: type[BaseModel], path: Path, data: Any) -> type[BaseModel] | None:
    """The schema class of the mapping at ``path``; kinds are told apart by the ``type`` in ``data``."""
    return _choose(*_walk(root, path, data))


def field_at(root: type[BaseModel], path: Path, data: Any) -> FieldInfo | None:
    """The field that a path ends in."""
    if not path or not isinstance(path[-1], str):
        return None
    owner = class_at(root, path[:-1], data)
    if owner:
        return owner.model_fields.get(path[-1])
    return None


def kinds(annotation: Any) -> dict[str, type[BaseModel]]:
    """The words of ``type`` under an annotation, with their classes."""
    found: dict[str, type[BaseModel]] = {}
    for mark in _members(annotation):
        if isinstance(mark, KindOf):
            found |= mark.schemas()
    for model in _models(annotation):
        if "type" in model.model_fields:
            found |= dict.fromkeys(literal_words(model.model_fields["type"].annotation), model)
    return found


def kinds_at(root: type[BaseModel], path: Path, data: Any) -> dict[str, type[BaseModel]]:
    """The words of ``type`` that the mapping at ``path`` may have."""
    return kinds(_walk(root, path, data)[0])


def literal_words(annotation: Any) -> list[str]:
    """The words of a Literal, also inside an optional or annotated type."""
    words: list[Any] = []
    for member in _members(annotation):
        if get_origin(member) is Literal:
            for word in get_args(member):
                words.append(word)
    return [word for word in words if isinstance(word, str)]


def _walk(annotation: Any, path: Path, data: Any) -> tuple[Any, Any]:
    for key in path:
        annotation = _step(annotation, key, data)
        data = _item(data, key)
    return annotation, data


def _members(annotation: Any) -> Iterator[Any]:
    """The types that a value may have, and the marks on them."""
    if get_origin(annotation) not in (Annotated, Union, types.UnionType):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from _members(argument)


def _models(annotation: Any) -> list[type[BaseModel]]:
    results: list[type[BaseModel]] = []
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            results.append(member)
    return results


def _choose(annotation: Any, data: Any) -> type[BaseModel] | None:
    if isinstance(data, dict):
        word = data.get("type")
    else:
        word = None
    for mark in _members(annotation):
        if isinstance(mark, KindOf):
            if isinstance(word, str) and word in mark.kinds:
                return mark.kinds.schema(word)
            return None
    models = _models(annotation)
    if len(models) == 1:
        return models[0]
    if isinstance(word, str):
        return kinds(annotation).get(word)
    return None


def _step(annotation: Any, key: str | int, data: Any) -> Any:
    model = _choose(annotation, data)
    if model is not None:
        field = model.model_fields.get(str(key))
        if field:
            return whole(field)
        return None
    for member in _members(annotation):
        origin = get_origin(member)
        arguments = get_args(member)
        if origin is dict and isinstance(key, str):
            return arguments[1]
        if origin in (list, tuple) and isinstance(key, int):
            return arguments[0]
    return None


def value_at(data: Any, path: Path) -> Any:
    """What stands at ``path`` of plain data; None where there is nothing."""
    return reduce(_item, path, data)


def _item(data: Any, key: str | int) -> Any:
    if isinstance(data, dict):
        return data.get(key)
    if isinstance(data, list) and isinstance(key, int) and key < len(data):
        return data[key]
    return None
