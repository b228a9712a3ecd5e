"""Plain values as bytes, typed and bounded: what a judge and a program exchange, and nothing else.

A value of any other type is sent as a reference, and the reader decides which object the reference means. A reader
trusts nothing: bytes that are not exactly one value raise Malformed.
"""

from __future__ import annotations

import posix as os

from .records import Record, fields_of, record_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable
    from typing import Any, Final

# Bounds of what a program may send. The judge may send more, so that no answer becomes too large to be passed back.
MAX_FRAME: Final = 16 << 20
MAX_DEPTH: Final = 150
JUDGE_MAX_FRAME: Final = 256 << 20
JUDGE_MAX_DEPTH: Final = 220
_MAX_TYPE_NAME: Final = 80
# The modules of the judge itself.
_OURS: Final = "nel_judge"

# The only builtins that a program may name: types of plain values, and exceptions that tests can expect.
_VALUE_TYPES: Final = (
    "bool bytearray bytes complex dict float frozenset int list object range set str tuple ArithmeticError "
    "AssertionError AttributeError BlockingIOError BrokenPipeError BufferError ChildProcessError "
    "ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EOFError Exception "
    "FileExistsError FileNotFoundError FloatingPointError ImportError IndexError InterruptedError IsADirectoryError "
    "KeyError LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError "
    "OverflowError PermissionError ProcessLookupError RecursionError ReferenceError RuntimeError StopAsyncIteration "
    "StopIteration SyntaxError SystemError TimeoutError TypeError UnboundLocalError UnicodeDecodeError "
    "UnicodeEncodeError UnicodeError UnicodeTranslateError ValueError ZeroDivisionError"
)
BUILTIN_TYPES: Final = frozenset(_VALUE_TYPES.split())


def _zone_of(value: Any) -> tuple[Any, Any]:
    """The offset from UTC in seconds and its name; (None, None) for a time without a zone."""
    if value.tzinfo is None:
        return None, None
    offset = value.utcoffset()
    if offset is None:
        return None, None
    return offset.total_seconds(), str(value.tzname())


# Types that are sent as the arguments to build them with: the module of the type, and how to get the arguments.
_BUILT: Final[dict[str, tuple[str, Callable[[Any], tuple[Any, ...]]]]] = {
    "Decimal": ("decimal", lambda v: (str(v),)),
    "Fraction": ("fractions", lambda v: (v.numerator, v.denominator)),
    "date": ("datetime", lambda v: (v.year, v.month, v.day)),
    "datetime": (
        "datetime",
        lambda v: (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, *_zone_of(v)),
    ),
    "time": ("datetime", lambda v: (v.hour, v.minute, v.second, v.microsecond, *_zone_of(v))),
    "timedelta": ("datetime", lambda v: (v.days, v.seconds, v.microseconds)),
    "deque": ("collections", lambda v: (list(v),)),
    "Counter": ("collections", lambda v: (dict(v),)),
    "PosixPath": ("pathlib", lambda v: (str(v),)),
}
_CONTAINERS: Final = {"deque": list, "Counter": dict}
_ZONED: Final = ("datetime", "time")
_LISTS: Final[tuple[tuple[Any, bytes], ...]] = (
    (list, b"l"),
    (tuple, b"t"),
    (set, b"S"),
    (frozenset, b"Z"),
)
_LIST_OF: Final[dict[bytes, Callable[[list[Any]], Any]]] = {
    b"t": tuple,
    b"S": set,
    b"Z": frozenset,
    b"l": list,
}
_CONSTANTS: Final = {b"N": None, b"T": True, b"F": False}


class Forbidden(ValueError):
    """A part of the judge, which no message may carry."""


OBJECT: Final = 0
CALLABLE: Final = 1
EXCEPTION: Final = 2


class Malformed(Exception):
    """Bytes that are not a value, or a value beyond the bounds."""


class Reference:
    """Represents in a message an object that is not sent itself.

    A number of at least 0 means an object of the program, -1 a builtin or a function of an importable module by its
    name, and a smaller number an object of the tests. ``kind`` is OBJECT, CALLABLE or EXCEPTION (a class of exceptions,
    whose ``type_name`` is "BuiltinBase:Name").
    """

    __slots__ = ("kind", "number", "type_name")

    def __init__(self, number: int, kind: int, type_name: str) -> None:
        self.number = number
        self.kind = int(kind)
        self.type_name = type_name


def _is_counter(kind: type) -> bool:
    return kind.__name__ == "Counter" and kind.__module__ == "collections"


def encode(
    value: object,
    refer: Callable[[Any], Reference],
    max_frame: int = MAX_FRAME,
    max_depth: int = MAX_DEPTH,
) -> bytes:
    """Encode a value.

    Args:
        value: The value.
        refer: Makes a reference to an object that is not plain.
        max_frame: How many bytes the result may have.
        max_depth: How deeply lists may be nested.

    Raises:
        ValueError: The value is too large or nested too deeply.
    """
    writer = _Writer(refer, max_frame, max_depth)
    writer.put(value, 0)
    return b"".join(writer.parts)


def decode(
    data: bytes,
    resolve: Callable[[Reference], Any],
    nan: float | None = None,
    max_depth: int = MAX_DEPTH,
) -> Any:
    """Decode a value.

    Args:
        data: The bytes of one value.
        resolve: Returns the object of a reference.
        nan: The value to return for every NaN; by default an ordinary NaN.
        max_depth: How deeply lists may be nested.

    Raises:
        Malformed: The bytes are not exactly one value.
    """
    reader = _Reader(data, resolve, nan, max_depth=max_depth + 2)
    try:
        value = reader.value(0)
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        RecursionError,
        AttributeError,
        MemoryError,
    ) as error:
        raise Malformed(str(error)[:200]) from None
    if reader.at != len(data):
        raise Malformed("bytes after the value")
    return value


def no_reference(value: object) -> Any:
    """The ``refer`` of messages that hold only plain values; raises ValueError."""
    raise ValueError(f"a {type(value).__name__} where only plain values are allowed")


def send(fd: int, body: bytes) -> None:
    """Write one frame."""
    remaining = memoryview(len(body).to_bytes(4, "big") + body)
    while remaining:
        written = os.write(fd, remaining)
        remaining = remaining[written:]


def receive(fd: int, max_frame: int = MAX_FRAME) -> bytes | None:
    """Read one frame; None at the end of the pipe. Raises Malformed for a frame beyond the bounds."""
    head = _exactly(fd, 4)
    if head is None:
        return None
    size = int.from_bytes(head, "big")
    if size > max_frame:
        raise Malformed("a frame beyond the bounds")
    return _exactly(fd, size)


def _exactly(fd: int, size: int) -> bytes | None:
    """Read so many bytes; None when the pipe ends before them."""
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Writer:
    """Encodes a value piece by piece; ``parts`` holds the bytes."""

    def __init__(self, refer: Callable[[Any], Reference], max_frame: int, max_depth: int) -> None:
        self.parts: list[bytes] = []
        self._refer = refer
        self._bytes_left = max_frame
        self._max_depth = max_depth

    def _add(self, data: bytes) -> None:
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise ValueError("the value is too large")
        self.parts.append(data)

    def put(self, value: Any, depth: int) -> None:
        """Encode a value that is inside ``depth`` others."""
        if depth > self._max_depth:
            raise ValueError("the value is nested too deeply")
        if value is None:
            self._add(b"N")
        elif value is True:
            self._add(b"T")
        elif value is False:
            self._add(b"F")
        elif isinstance(value, int):
            self._add(b"i%x;" % int.__int__(value))
        elif isinstance(value, str):
            self._sized(b"s", str.__str__(value).encode("utf-8", "surrogatepass"))
        elif isinstance(value, float):
            self._add(b"f%s;" % float.__repr__(value).encode())
        elif isinstance(value, dict) and _is_counter(type(value)):
            self._put_rare(value, depth)
        elif isinstance(value, dict):
            if type(value).__module__.startswith(_OURS):
                raise Forbidden("the names of the tests")
            self._add(b"d%d:" % dict.__len__(value))
            for key, item in dict.items(value):
                self.put(key, depth + 1)
                self.put(item, depth + 1)
        else:
            self._put_list(value, depth)

    def _put_list(self, value: Any, depth: int) -> None:
        if isinstance(value, tuple):
            fields = fields_of(value)
            if fields:
                self._put_record(value, fields, depth)
                return
        for kind, tag in _LISTS:
            if isinstance(value, kind):
                items = list(kind.__iter__(value))
                self._add(tag + b"%d:" % len(items))
                for item in items:
                    self.put(item, depth + 1)
                return
        self._put_rare(value, depth)

    def _put_record(self, value: tuple[Any, ...], fields: tuple[str, ...], depth: int) -> None:
        self._add(b"n")
        self._name(type(value).__name__)
        self.put(list(fields), depth + 1)
        self.put(list(tuple.__iter__(value)), depth + 1)

    def _put_rare(self, value: Any, depth: int) -> None:
        if isinstance(value, bytes):
            self._sized(b"b", bytes(value))
        elif isinstance(value, bytearray):
            self._sized(b"y", bytes(value))
        elif isinstance(value, complex):
            self._add(b"c%r;%r;" % (value.real, value.imag))
        elif isinstance(value, range):
            self._add(b"r")
            self.put((value.start, value.stop, value.step), depth + 1)
        else:
            self._put_object(value, depth)

    def _put_object(self, value: Any, depth: int) -> None:
        """A value of a library type, a scalar of numpy, or a reference."""
        name = type(value).__name__
        module = type(value).__module__
        if name in _BUILT:
            home, arguments_of = _BUILT[name]
            if module.startswith(home):
                self._add(b"x%s;" % name.encode())
                self.put(arguments_of(value), depth + 1)
                return
        if module == "numpy" and getattr(value, "shape", None) == ():
            self.put(value.item(), depth + 1)
            return
        reference = self._refer(value)
        self._add(b"o%d;%d;" % (reference.number, reference.kind))
        self._name(reference.type_name)

    def _name(self, name: str) -> None:
        short = name[:_MAX_TYPE_NAME].encode("utf-8", "replace")
        self._sized(b"s", short)

    def _sized(self, tag: bytes, data: bytes) -> None:
        self._add(tag + b"%d:" % len(data))
        self._add(data)


class _Reader:
    """Decodes bytes of the other process; ``at`` is the position of the next byte."""

    def __init__(
        self, data: bytes, resolve: Callable[[Reference], Any], nan: float | None, max_depth: int
    ) -> None:
        self.at = 0
        self._data = data
        self._resolve = resolve
        self._nan = nan
        self._max_depth = max_depth

    def _until(self, end: bytes) -> bytes:
        stop = self._data.index(end, self.at)
        content = self._data[self.at : stop]
        self.at = stop + 1
        return content

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
        """The value that begins at the next byte."""
        if depth > self._max_depth:
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
            number = float(self._until(b";"))
            if number != number and self._nan is not None:
                return self._nan
            return number
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
            return range(*self._integers(depth))
        if tag == b"n":
            return self._record(depth)
        if tag == b"x":
            return self._built(self._until(b";").decode(), depth)
        if tag == b"o":
            number = int(self._until(b";"))
            kind = int(self._until(b";"))
            return self._resolve(Reference(number, kind, str(self.value(depth + 1))))
        raise ValueError("an unknown tag")

    def _integers(self, depth: int) -> tuple[int, ...]:
        numbers = self.value(depth + 1)
        if type(numbers) is not tuple or any(type(number) is not int for number in numbers):
            raise ValueError("bounds of a range that are not whole numbers")
        return numbers

    def _record(self, depth: int) -> Record:
        name = self.value(depth + 1)
        fields = self.value(depth + 1)
        items = self.value(depth + 1)
        if type(name) is not str or type(fields) is not list or type(items) is not list:
            raise ValueError("a named tuple of no known form")
        if len(fields) != len(items):
            raise ValueError("a named tuple of no known form")
        return record_type(name, tuple(fields))(items)

    def _built(self, name: str, depth: int) -> Any:
        module = __import__(_BUILT[name][0])
        arguments = self.value(depth + 1)
        if type(arguments) is not tuple:
            raise ValueError("arguments that are not a tuple")
        if name in _CONTAINERS:
            if len(arguments) != 1 or type(arguments[0]) is not _CONTAINERS[name]:
                raise ValueError("a container of no known content")
        elif any(type(argument) not in (int, float, str, type(None)) for argument in arguments):
            raise ValueError("arguments that are not plain")
        if name in _ZONED:
            return _with_zone(module, name, arguments)
        return getattr(module, name)(*arguments)


def _with_zone(datetime: Any, name: str, arguments: tuple[Any, ...]) -> Any:
    """A time whose last two arguments are the offset from UTC in seconds and the name of its zone."""
    kind = getattr(datetime, name)
    offset = arguments[-2]
    if offset is None:
        return kind(*arguments[:-2])
    delta = datetime.timedelta(seconds=offset)
    zone = datetime.timezone.utc
    if delta:
        zone = datetime.timezone(delta, arguments[-1])
    return kind(*arguments[:-2], tzinfo=zone)
