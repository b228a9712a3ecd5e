"""The words in a function's code: what a benchmark needs is often said there and nowhere else."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType
from typing import Any


def code_words(function: object, seen: set[object] | None = None) -> set[str]:
    """The names and texts in a function's code and in the functions of the same folder that it calls."""
    if seen is None:
        seen = set()
    else:
        seen = seen
    if callable(function):
        function = inspect.unwrap(getattr(function, "func", function))
    else:
        function = None
    if not inspect.isfunction(function) or function in seen:
        return set()
    seen.add(function)
    words = {function.__name__, *_words(function.__code__)}
    file = source_file(function)
    if function.__closure__:
        cells = inspect.getclosurevars(function).nonlocals
    else:
        cells = {}
    for used in [function.__globals__.get(word, cells.get(word)) for word in {*words, *cells}]:
        if inspect.isfunction(used):
            words.add(used.__name__)
            other = source_file(used)
            if file is not None and other is not None and other.parent == file.parent:
                words |= code_words(used, seen)
    return words


def _words(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, CodeType):
        yield from part.co_names
        yield from _words(part.co_consts)
    elif isinstance(part, tuple):
        for one in part:
            yield from _words(one)


def source_file(function: Callable[..., Any]) -> Path | None:
    """The file in which a function was written; None in a shell or a notebook."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is not None:
        path: Path | None = Path(code.co_filename)
    else:
        path = None
    if path is not None and path.is_file():
        return path
    return None


def class_file(kind: type) -> Path | None:
    """The file in which a class was written; None in a shell or a notebook, and for classes of Python itself."""
    try:
        file = inspect.getsourcefile(kind)
    except TypeError:
        return None
    if file is not None and Path(file).is_file():
        return Path(file)
    return None
