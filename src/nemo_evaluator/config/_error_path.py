"""Converts the location of a pydantic error to the path in the user's file.

A location has items that are not in the file: the tag of a union's alternative (``int``, a class name, the value of a
discriminator), ``[key]`` after a key that is itself invalid, and keys that nel filled in. A tag may be spelled like a
key of the user, so the schema decides which items are tags.
"""

from typing import Any

from pydantic import BaseModel

from nemo_evaluator.config._document import Path
from nemo_evaluator.config._schema_walk import annotation_below, has_field, is_union
from nemo_evaluator.core.json_coerce import as_dict

# Errors whose location ends in a key that the file does not have.
_ABSENT_KEY = ("missing", "setting_missing")


def error_path(
    error_type: str, location: tuple[str | int, ...], root: type[BaseModel], data: Any
) -> Path:
    """Return the path in the file that an error is about.

    Args:
        error_type: pydantic's name of the error, such as ``extra_forbidden``.
        location: pydantic's location of the error.
        root: The schema of the whole document.
        data: The document as the user wrote it.

    Returns:
        The path of the value in the file. It ends in a missing key if the error is about one; otherwise at the
        innermost part of the location that the file has.
    """
    location = _of_named_sandbox(location, data)
    path: Path = ()
    value = data
    annotation: Any = root
    tag_skipped = False
    for item in location:
        if is_union(annotation) and not tag_skipped:
            tag_skipped = True
            continue
        if _contains(value, item):
            annotation = annotation_below(annotation, item, value)
            value = value[item]
            path = (*path, item)
            tag_skipped = False
        elif isinstance(value, dict) and has_field(annotation, item, value):
            # The key is missing, or nel filled it in: nothing below it is in the file.
            return (*path, item)
    if error_type in _ABSENT_KEY and isinstance(value, dict) and path != location:
        return (*path, location[-1])
    return path


def _contains(value: Any, item: str | int) -> bool:
    if isinstance(value, dict):
        return item in value
    return isinstance(value, list) and isinstance(item, int) and item < len(value)


def _of_named_sandbox(location: tuple[str | int, ...], data: Any) -> tuple[str | int, ...]:
    """Return the location under ``sandboxes:`` if a benchmark refers to a sandbox defined there."""
    match location:
        case ("benchmarks", int(number), "sandbox", *inner):
            benchmarks = as_dict(data).get("benchmarks")
            name = (
                as_dict(benchmarks[number]).get("sandbox") if isinstance(benchmarks, list) else None
            )
            sandboxes = as_dict(as_dict(data).get("sandboxes"))
            if isinstance(name, str) and sandboxes.get(name) is not None:
                return ("sandboxes", name, *inner)
    return location
