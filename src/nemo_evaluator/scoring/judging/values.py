"""Plain values as bytes, typed and bounded: what a judge and a program tell each other, and nothing else. A value of a
type that is not here goes as a reference; whoever reads it decides what stands for it. A reader believes nothing:
whatever is not exactly a value is Malformed."""

from __future__ import annotations

import posix as os

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

MAX_FRAME: Final = 16 << 20
_MAX_DEPTH: Final = 150
# Types whose values are known by what they are made from: module, arguments.
_MADE: Final[dict[str, tuple[str, Callable[[Any], tuple[Any, ...]]]]] = {
    "Decimal": ("decimal", lambda v: (str(v),)),
    "Fraction": ("fractions", lambda v: (v.numerator, v.denominator)),
    "date": ("datetime", lambda v: (v.year, v.month, v.day)),
    "datetime": ("datetime", lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond)),
    "time": ("datetime", lambda v: (v.hour, v.minute, v.second, v.microsecond)),
    "timedelta": ("datetime", lambda v: (v.days, v.seconds, v.microseconds)),
    "deque": ("collections", lambda v: (list(v),)),
}
_LISTS: Final[tuple[tuple[Any, bytes], ...]] = ((list, b"l"), (tuple, b"t"), (set, b"S"), (frozenset, b"Z"))
_LIST_OF: Final[dict[bytes, Callable[[list[Any]], Any]]] = {b"t": tuple, b"S": set, b"Z": frozenset, b"l": list}
_CONSTANTS: Final = {b"N": None, b"T": True, b"F": False}


class Malformed(Exception):
    """Bytes that are no value, or a value beyond the bounds."""


class Reference:
    """Stands in a message for something that cannot be sent."""

    __slots__ = ("callable", "number", "type_name")

    def __init__(self, number: int, is_callable: bool, type_name: str) -> None:
        self.number, self.callable, self.type_name = number, is_callable, type_name


def encode(value: object, refer: Callable[[Any], Reference]) -> bytes:
    """A value as bytes; ``refer`` is asked for what is not plain."""
    writer = _Writer(refer)
    writer.put(value, 0)
    return b"".join(writer.parts)


def decode(data: bytes, resolve: Callable[[Reference], Any]) -> Any:
    """The value that ``data`` holds; raises Malformed."""
    reader = _Reader(data, resolve)
    try:
        value = reader.value(0)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise Malformed(str(error)) from None
    if reader.at != len(data):
        raise Malformed("bytes after the value")
    return value


def no_reference(value: object) -> Any:
    """For messages that hold plain values alone."""
    raise ValueError(f"a {type(value).__name__} where only plain values stand")


def send(fd: int, body: bytes) -> None:
    left = memoryview(len(body).to_bytes(4, "big") + body)
    while left:
        left = left[os.write(fd, left) :]


def receive(fd: int) -> bytes | None:
    """Read one frame; None at the end."""
    head = _exactly(fd, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise Malformed("a frame beyond the bounds")
    return _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Writer:
    def __init__(self, refer: Callable[[Any], Reference]) -> None:
        self.parts: list[bytes] = []
        self._refer, self._room = refer, MAX_FRAME

    def _add(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room < 0:
            raise ValueError("the value is too large")
        self.parts.append(data)

    def put(self, value: Any, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise ValueError("the value is nested too deeply")
        if value is None or value is True or value is False:
            self._add(b"N" if value is None else b"T" if value else b"F")
        elif isinstance(value, int):
            self._add(b"i%x;" % int.__int__(value))
        elif isinstance(value, str):
            self._sized(b"s", str.__str__(value).encode("utf-8", "surrogatepass"))
        elif isinstance(value, float):
            self._add(b"f%s;" % float.__repr__(value).encode())
        elif isinstance(value, dict):
            self._add(b"d%d:" % dict.__len__(value))
            for key, item in dict.items(value):
                self.put(key, depth + 1)
                self.put(item, depth + 1)
        else:
            self._rare(value, depth)

    def _rare(self, value: Any, depth: int) -> None:
        for kind, tag in _LISTS:
            if isinstance(value, kind):
                items = list(kind.__iter__(value))
                self._add(tag + b"%d:" % len(items))
                for item in items:
                    self.put(item, depth + 1)
                return
        if isinstance(value, (bytes, bytearray)):
            return self._sized(b"b" if isinstance(value, bytes) else b"y", bytes(value))
        if isinstance(value, complex):
            return self._add(b"c%r;%r;" % (value.real, value.imag))
        if isinstance(value, range):
            self._add(b"r")
            return self.put((value.start, value.stop, value.step), depth + 1)
        name, module = type(value).__name__, type(value).__module__
        if name in _MADE and _MADE[name][0] == module and getattr(value, "tzinfo", None) is None:
            self._add(b"x%s;" % name.encode())
            return self.put(_MADE[name][1](value), depth + 1)
        if module == "numpy" and getattr(value, "shape", None) == ():
            return self.put(value.item(), depth + 1)
        found = self._refer(value)
        self._add(b"o%d;%d;" % (found.number, found.callable))
        self._sized(b"s", found.type_name.encode("utf-8", "replace")[:80])

    def _sized(self, tag: bytes, data: bytes) -> None:
        self._add(tag + b"%d:" % len(data))
        self._add(data)


class _Reader:
    def __init__(self, data: bytes, resolve: Callable[[Reference], Any]) -> None:
        self._data, self._resolve, self.at = data, resolve, 0

    def _until(self, end: bytes) -> bytes:
        stop = self._data.index(end, self.at)
        found, self.at = self._data[self.at : stop], stop + 1
        return found

    def _count(self) -> int:
        count = int(self._until(b":"))
        if not 0 <= count <= len(self._data) - self.at:
            raise ValueError("a length beyond the frame")
        return count

    def _sized(self) -> bytes:
        size = self._count()
        self.at += size
        return self._data[self.at - size : self.at]

    def value(self, depth: int) -> Any:
        if depth > _MAX_DEPTH + 2:
            raise ValueError("nested too deeply")
        tag = self._data[self.at : self.at + 1]
        self.at += 1
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        if tag == b"i":
            return int(self._until(b";"), 16)
        if tag == b"s":
            return self._sized().decode("utf-8", "surrogatepass")
        if tag == b"f":
            return float(self._until(b";"))
        if tag in _LIST_OF:
            return _LIST_OF[tag]([self.value(depth + 1) for _ in range(self._count())])
        if tag == b"d":
            return {self.value(depth + 1): self.value(depth + 1) for _ in range(self._count())}
        return self._rare(tag, depth)

    def _rare(self, tag: bytes, depth: int) -> Any:
        if tag == b"b":
            return self._sized()
        if tag == b"y":
            return bytearray(self._sized())
        if tag == b"c":
            return complex(float(self._until(b";")), float(self._until(b";")))
        if tag == b"r":
            return range(*self.value(depth + 1))
        if tag == b"x":
            name = self._until(b";").decode()
            module = __import__(_MADE[name][0])
            return getattr(module, name)(*self.value(depth + 1))
        if tag == b"o":
            number, is_callable = int(self._until(b";")), int(self._until(b";")) == 1
            return self._resolve(Reference(number, is_callable, str(self.value(depth + 1))))
        raise ValueError("an unknown tag")
