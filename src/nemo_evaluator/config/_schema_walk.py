"""Finds the schema class or field for a path of a config.

Where a field may hold several kinds, the ``type`` in the data decides which.
"""

import types
from collections.abc import Iterator
from functools import reduce
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from nemo_evaluator.config._document import Path
from nemo_evaluator.config.kinds import KindOf, whole


def class_at(root: type[BaseModel], path: Path, data: Any) -> type[BaseModel] | None:
    """Return the schema class of the mapping at a path.

    Args:
        root: The schema of the whole document.
        path: Where the mapping is.
        data: The whole document.

    Returns:
        The class; None if the path is unknown, holds no mapping, or has no valid ``type``.
    """
    annotation = annotation_at(root, path, data)
    return _chosen_model(annotation, value_at(data, path))


def field_at(root: type[BaseModel], path: Path, data: Any) -> FieldInfo | None:
    """Return the field that a path ends in; None if the path ends in a list index or an unknown key."""
    if not path or not isinstance(path[-1], str):
        return None
    owner = class_at(root, path[:-1], data)
    if owner is None:
        return None
    return owner.model_fields.get(path[-1])


def kinds_at(root: type[BaseModel], path: Path, data: Any) -> dict[str, type[BaseModel]]:
    """Return the values that ``type`` may have in the mapping at a path, with their schema classes."""
    return kinds(annotation_at(root, path, data))


def kinds(annotation: Any) -> dict[str, type[BaseModel]]:
    """Return the values that ``type`` may have under an annotation, with their schema classes."""
    schemas: dict[str, type[BaseModel]] = {}
    for member in _members(annotation):
        if isinstance(member, KindOf):
            schemas |= member.schemas()
    for model in _models(annotation):
        if "type" in model.model_fields:
            names = literal_words(model.model_fields["type"].annotation)
            schemas |= dict.fromkeys(names, model)
    return schemas


def literal_words(annotation: Any) -> list[str]:
    """Return the texts of a Literal, which may be inside an optional or annotated type."""
    texts: list[str] = []
    for member in _members(annotation):
        if get_origin(member) is Literal:
            texts += [value for value in get_args(member) if isinstance(value, str)]
    return texts


def annotation_at(root: Any, path: Path, data: Any) -> Any:
    """Return the annotation at a path; None if the schema does not describe it."""
    annotation = root
    for key in path:
        annotation = annotation_below(annotation, key, data)
        data = _item(data, key)
    return annotation


def annotation_below(annotation: Any, key: str | int, data: Any) -> Any:
    """Return the annotation of a key or index in a mapping or list.

    Args:
        annotation: The annotation of the mapping or list.
        key: The key or index.
        data: The mapping or list itself; its ``type`` decides between kinds.

    Returns:
        The annotation of the value; None if the schema does not describe it.
    """
    model = _chosen_model(annotation, data)
    if model is not None:
        field = model.model_fields.get(str(key))
        return whole(field) if field else None
    for member in _members(annotation):
        origin = get_origin(member)
        arguments = get_args(member)
        if origin is dict and isinstance(key, str):
            return arguments[1]
        if origin in (list, tuple) and isinstance(key, int):
            return arguments[0]
    return None


def has_field(annotation: Any, key: str | int, data: Any) -> bool:
    """Whether the schema class of a mapping with this annotation has the field ``key``."""
    model = _chosen_model(annotation, data)
    return model is not None and key in model.model_fields


def is_union(annotation: Any) -> bool:
    """Whether pydantic tries several types here, and so adds a tag to the location of an error.

    A field of a kind (``KindOf``) is not a union to pydantic, and "or null" adds no tag.
    """
    alternatives = 0
    for member in _members(annotation):
        if isinstance(member, KindOf):
            return False
        if _is_type(member):
            alternatives += 1
    return alternatives > 1


def _is_type(member: Any) -> bool:
    """Whether a member of an annotation is a type, rather than null or metadata such as ``Field(ge=1)``."""
    if member is type(None):
        return False
    return isinstance(member, type) or get_origin(member) is not None


def value_at(data: Any, path: Path) -> Any:
    """Return the value at a path of plain data; None if there is none."""
    return reduce(_item, path, data)


def _item(data: Any, key: str | int) -> Any:
    if isinstance(data, dict):
        return data.get(key)
    if isinstance(data, list) and isinstance(key, int) and key < len(data):
        return data[key]
    return None


def _members(annotation: Any) -> Iterator[Any]:
    """Yield the types that an annotation allows, and their metadata."""
    if get_origin(annotation) not in (Annotated, Union, types.UnionType):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from _members(argument)


def _models(annotation: Any) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = []
    for member in _members(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            models.append(member)
    return models


def _chosen_model(annotation: Any, data: Any) -> type[BaseModel] | None:
    """Return the schema class of a mapping: by its ``type``, or the only class that the annotation allows."""
    type_name = data.get("type") if isinstance(data, dict) else None
    for member in _members(annotation):
        if isinstance(member, KindOf):
            if isinstance(type_name, str) and type_name in member.kinds:
                return member.kinds.schema(type_name)
            return None
    models = _models(annotation)
    if len(models) == 1:
        return models[0]
    if isinstance(type_name, str):
        return kinds(annotation).get(type_name)
    return None
