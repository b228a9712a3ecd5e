"""``dataclass`` for the modules that a command loads at its start: the methods of a class are written on first use.

The library's own writes and compiles half a dozen functions for each class when its module is loaded: for all classes
of a run, a sixth of its start. These wait until the class is used, and most are not. In all else they are the same
(``fields``, ``replace``, subclasses, pickling); every class has slots.
"""

import dataclasses
from dataclasses import KW_ONLY, InitVar, asdict, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

# What making an instance needs is written first, and the rest (to show it, to compare it) when that is asked for.
_MADE_WITH = ("__init__", "__match_args__", "__dataclass_fields__")
_FROZEN_WITH = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
_REST = ("__repr__", "__eq__", "__hash__", "__dataclass_params__")


class _Unwritten:
    """Stands for an attribute of a class that is still to be written."""

    def __init__(self, name: str, plan: type, options: dict[str, Any]) -> None:
        self._name, self._plan, self._options = name, plan, options
        self._space = dict(plan.__dict__)

    def __get__(self, instance: object, owner: type) -> Any:
        name, plan = self._name, self._plan
        home = next(one for one in owner.__mro__ if one.__dict__.get(name) is self)
        less = {} if name in _REST else {"repr": False, "eq": False}
        fresh = type(plan)(plan.__name__, plan.__bases__, dict(self._space))
        fresh.__qualname__ = plan.__qualname__
        written: type = dataclasses.dataclass(**self._options | less)(fresh)
        for one in _REST if name in _REST else (*_MADE_WITH, *_FROZEN_WITH):
            if isinstance(home.__dict__.get(one), _Unwritten):
                setattr(home, one, written.__dict__[one])
        found = home.__dict__[name]
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Any:
    options = {"slots": slots, "frozen": frozen, "eq": eq}

    def decorated(plan: type) -> type:
        space = dict(plan.__dict__)
        own = [name for name, kind in space.get("__annotations__", {}).items() if _is_field(kind)]
        inherited = {name for base in plan.__mro__[1:-1] for name in getattr(base, "__slots__", ())}
        for name in (*own, "__dict__", "__weakref__"):
            space.pop(name, None)
        if eq and space.get("__hash__") is None:
            space["__hash__"] = _Unwritten("__hash__", plan, options) if frozen else None
        given = ("__repr__", "__dataclass_params__", *(("__eq__",) if eq else ()))
        for name in (*_MADE_WITH, *(_FROZEN_WITH if frozen else ()), *given):
            space.setdefault(name, _Unwritten(name, plan, options))
        space["__slots__"] = tuple(name for name in own if name not in inherited)
        made = type(plan)(plan.__name__, plan.__bases__, space)
        made.__qualname__ = plan.__qualname__
        return made

    return decorated


def _is_field(kind: Any) -> bool:
    if isinstance(kind, str):
        return not kind.startswith(("ClassVar", "InitVar", "KW_ONLY"))
    return get_origin(kind) is not ClassVar and kind is not KW_ONLY and not isinstance(kind, InitVar)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
