"""Proxies: they represent objects of the program in the tests."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    # Not at run time: it would double the time that a judge takes to start.
    from collections.abc import Callable, Generator, Iterator
    from typing import Any


class MissingName(AttributeError):
    """The program has no such name, or its object no such attribute."""


def number_of(remote: Remote) -> int:
    """The number under which the program showed the object."""
    number: int = _state(remote)[1]
    return number


def session_of(remote: Remote) -> Any:
    """The session that the object belongs to."""
    return _state(remote)[0]


def _state(remote: Remote) -> tuple[Any, int, str]:
    """The session, the number and the name of the type."""
    state: tuple[Any, int, str] = _STATE.__get__(remote)
    return state


def _ask(remote: Remote, action: str, *operands: Any) -> Any:
    return _state(remote)[0].ask(action, remote, *operands)


def _typed(remote: Remote, action: str, kind: type) -> Any:
    """An answer that has to be of one type, such as that of ``__len__``."""
    answer = _ask(remote, action)
    if isinstance(answer, kind):
        return answer
    raise _state(remote)[0].stop("tamper", f"the program answers {action} with no {kind.__name__}")


class Remote:
    """An object of the program: the tests can look into it and walk through it, and it is equal only to itself.

    Comparisons, ``in`` and operators with a value of the tests are not passed on: they would tell the program what is
    expected, and let it decide that it is so.
    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, session: Any, number: int, type_name: str) -> None:
        _STATE.__set__(self, (session, number, type_name))

    def __getattr__(self, name: str) -> Any:
        if name in ("__name__", "__doc__"):
            return _ask(self, "get", name)
        if name.startswith("__"):
            raise AttributeError(name)
        return _ask(self, "get", name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, "set", name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, "del", name)

    def __getitem__(self, key: Any) -> Any:
        return _ask(self, "item", key)

    def __setitem__(self, key: Any, value: Any) -> None:
        _ask(self, "set_item", key, value)

    def __delitem__(self, key: Any) -> None:
        _ask(self, "del_item", key)

    def __len__(self) -> int:
        try:
            return int(_typed(self, "len", int))
        except MissingName:
            # ``list`` asks for the length of a generator, and accepts a TypeError.
            raise TypeError("the object has no length") from None

    def __bool__(self) -> bool:
        return bool(_typed(self, "bool", bool))

    def __int__(self) -> int:
        return int(_typed(self, "int", int))

    def __float__(self) -> float:
        return float(_typed(self, "float", float))

    def __str__(self) -> str:
        return str(_typed(self, "str", str))

    def __repr__(self) -> str:
        return str(_typed(self, "repr", str))

    def __iter__(self) -> Iterator[Any]:
        items = _ask(self, "iter")
        if isinstance(items, Remote):
            return items
        return iter(items)

    def __next__(self) -> Any:
        return _ask(self, "next")

    def __reversed__(self) -> Iterator[Any]:
        items = _ask(self, "reversed")
        if isinstance(items, Remote):
            return items
        return iter(items)

    def __await__(self) -> Generator[Any, Any, Any]:
        yield from ()
        return _ask(self, "await")

    def __enter__(self) -> Any:
        return _ask(self, "enter")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        """The program learns what class of exception it is, and may suppress one that is not a verdict."""
        session = _state(self)[0]
        if error is not None:
            is_verdict = isinstance(error, AssertionError) or not isinstance(error, Exception)
            if is_verdict or error is session.tally.raised:
                return False
        name = None
        if kind is not None:
            builtin_names = [
                base.__name__ for base in kind.__mro__ if base.__module__ == "builtins"
            ]
            name = builtin_names[0] if builtin_names else None
        suppress = _ask(self, "exit", name)
        return suppress is True and error is not None

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, Remote) and _ask(self, "is_instance", value) is True

    def __subclasscheck__(self, kind: Any) -> bool:
        return isinstance(kind, Remote) and _ask(self, "is_subclass", kind) is True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Remote):
            return False
        if number_of(other) == number_of(self):
            return True
        session, _, name = _state(self)
        raise session.stop(
            "tamper", f"the tests compare two objects of the program's own type {name}"
        )

    def __hash__(self) -> int:
        return number_of(self)

    def __neg__(self) -> Any:
        return _ask(self, "neg")


# No attribute of a proxy leads to the session.
_STATE: Any = vars(Remote)["_state"]
delattr(Remote, "_state")


class ProgramFunction(Remote):
    """An object of the program that can be called."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _ask(self, "call", list(args), kwargs)


def _operator(name: str) -> Callable[[Remote, Any], Any]:
    """The method of an operator, which the program computes when both operands are its own."""

    def operate(self: Remote, other: Any) -> Any:
        # The other operand may be the expected value, unless it is the program's too.
        if isinstance(other, Remote):
            return _ask(self, name, other)
        return NotImplemented

    return operate


for _name in (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "or",
    "and",
    "xor",
):
    setattr(Remote, f"__{_name}__", _operator(_name))
