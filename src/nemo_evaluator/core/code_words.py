"""The words in a function's code: what a benchmark needs is often said there and nowhere else."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any


def code_words(function: object, seen: set[object] | None = None) -> set[str]:
    """Collect the names and texts in a function's code and in the functions of the same folder that it calls.

    Args:
        function: The function; anything else has no words.
        seen: The functions that were already searched, which are skipped.

    Returns:
        The names and texts.
    """
    if seen is None:
        seen = set()
    if callable(function):
        function = inspect.unwrap(getattr(function, "func", function))
    else:
        function = None
    if not inspect.isfunction(function) or function in seen:
        return set()
    seen.add(function)
    names_and_texts = {function.__name__, *_words(function.__code__)}
    file = source_file(function)
    if function.__closure__:
        closure_values = inspect.getclosurevars(function).nonlocals
    else:
        closure_values = {}
    for used_object in [
        function.__globals__.get(name, closure_values.get(name))
        for name in {*names_and_texts, *closure_values}
    ]:
        if inspect.isfunction(used_object):
            names_and_texts.add(used_object.__name__)
            used_file = source_file(used_object)
            if file is not None and used_file is not None and used_file.parent == file.parent:
                names_and_texts |= code_words(used_object, seen)
    return names_and_texts


def _words(part: object) -> Iterator[str]:
    """Yield the texts of a constant, and the names and texts of code, at any depth."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, CodeType):
        yield from part.co_names
        yield from _words(part.co_consts)
    elif isinstance(part, tuple):
        for item in part:
            yield from _words(item)


def source_file(function: Callable[..., Any]) -> Path | None:
    """Return the file that defines a function; None in a shell or a notebook."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        path: Path | None = Path(code.co_filename)
    else:
        path = None
    if path is not None and path.is_file():
        return path
    return None


def class_file(kind: type) -> Path | None:
    """Return the file that defines a class; None in a shell or a notebook, and for classes of Python itself."""
    try:
        file = inspect.getsourcefile(kind)
    except TypeError:
        return None
    if file is not None and Path(file).is_file():
        return Path(file)
    return None
