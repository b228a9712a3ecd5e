"""Objects of the tests that are passed to the program, and what the program may do with them."""

from __future__ import annotations

from . import values

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from typing import Any, Final

_TESTS: Final = "__main__"
_OURS: Final = "nel_judge"
_PLAIN: Final = (list, set, dict, bytearray, str, bytes, int, float, tuple, frozenset, range)
_BUILTIN_METHOD: Final[Any] = type([].append)
# Special methods that the program can do without.
_HARMLESS: Final = frozenset(
    {
        "__annotations__",
        "__call__",
        "__dict__",
        "__doc__",
        "__eq__",
        "__firstlineno__",
        "__hash__",
        "__init__",
    }
    | {
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__module__",
        "__orig_bases__",
    }
    | {
        "__parameters__",
        "__post_init__",
        "__qualname__",
        "__replace__",
        "__repr__",
        "__slots__",
        "__str__",
    }
    | {"__static_attributes__", "__weakref__"}
)


def is_of_judge(value: Any) -> bool:
    """A part of the judge, or a method of one."""
    owner = getattr(value, "__self__", None)
    for part in (value, type(value), owner, type(owner)):
        if isinstance(part, type) or hasattr(part, "__code__"):
            module = getattr(part, "__module__", None)
        else:
            module = None
        if isinstance(module, str) and module.startswith(_OURS):
            return True
    return False


def is_usable(value: Any) -> bool:
    """Whether the program can use an object as in one process, with calls and attributes alone."""
    kind = type(value)
    if kind.__module__ == "unittest.mock" or isinstance(value, type):
        return True
    if kind.__module__ != _TESTS:
        return callable(value)
    for base in kind.__mro__[:-1]:
        if any(name.startswith("__") and name not in _HARMLESS for name in vars(base)):
            return False
    return True


def perform(target: Any, action: str, operands: tuple[Any, ...]) -> Any:
    """Do what the program asks of an object of the tests.

    Args:
        target: The object.
        action: "call", "get" or "set".
        operands: The arguments of the call, or the name of the attribute and its new value.

    Raises:
        Malformed: The request has no known form.
        TypeError: The program may not call the object.
        AttributeError: The program may not use the attribute.
    """
    if action == "call":
        if len(operands) != 2 or type(operands[0]) is not tuple or type(operands[1]) is not dict:
            raise values.Malformed("a call of no known form")
        if not _may_be_called(target):
            raise TypeError("the program cannot call this object of the tests")
        return target(*operands[0], **operands[1])
    if not operands or type(operands[0]) is not str:
        raise values.Malformed("an attribute of no name")
    name = operands[0]
    if name.startswith("_") or not _may_be_looked_into(target, name):
        raise AttributeError(name)
    if action == "get" and len(operands) == 1:
        return getattr(target, name)
    if action == "set" and len(operands) == 2:
        setattr(target, name, operands[1])
        return None
    raise values.Malformed("an unknown request of the program")


def _may_be_called(target: Any) -> bool:
    """Functions and classes of the tests, their objects, mocks, and methods of values such as ``results.append``."""
    if not callable(target):
        return False
    if type(target) is _BUILTIN_METHOD:
        is_value = type(target.__self__) in _PLAIN or type(target.__self__).__name__ == "deque"
        return is_value and not target.__name__.startswith("format")
    return True


def _may_be_looked_into(target: Any, name: str) -> bool:
    """Objects of the tests' own classes, except test cases; of a mock only what stands for the mocked object."""
    kind = type(target)
    if kind.__module__ == "unittest.mock":
        return not hasattr(kind, name)
    return kind.__module__ == _TESTS and not hasattr(kind, "failureException")
