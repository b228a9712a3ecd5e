"""``dataclass`` for the modules that a command loads at its start: the methods of a class are written on first use. The
library's own writes and compiles half a dozen functions for each class when its module is loaded: for all classes of a
run, a sixth of its start. These wait until the class is used, and most are not. In all else they are the same
(``fields``, ``replace``, subclasses, pickling); every class has slots."""

import copy
import dataclasses
from dataclasses import KW_ONLY, InitVar, asdict, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]

# What making an instance needs is written first, and the rest (to show it, to compare it) when that is asked for.
_MADE_WITH = (
    "__init__",
    "__match_args__",
    "__dataclass_fields__",
    *(["__replace__"] if hasattr(copy, "replace") else []),
)
_FROZEN_WITH = ("__setattr__", "__delattr__", "__getstate__", "__setstate__")
_REST = ("__repr__", "__eq__", "__hash__", "__dataclass_params__")


class _Plan:
    """A class as it was declared; what is asked for is written into ``home``, the class that has its slots."""

    home: type

    def __init__(self, declared: type, options: dict[str, Any]) -> None:
        self._declared = declared
        self._options = options
        self._space = dict(declared.__dict__)

    def written(self, name: str) -> Any:
        """An attribute of the class. Another thread may have come first."""
        if isinstance(self.home.__dict__[name], _Unwritten):
            less = {} if name in _REST else {"repr": False, "eq": False}
            fresh = type(self._declared)(self.home.__name__, self.home.__bases__, dict(self._space))
            fresh.__qualname__ = self.home.__qualname__
            made: type = dataclasses.dataclass(**self._options | less)(fresh)
            for one in _REST if name in _REST else (*_MADE_WITH, *_FROZEN_WITH):
                if isinstance(self.home.__dict__.get(one), _Unwritten):
                    setattr(self.home, one, made.__dict__[one])
        return self.home.__dict__[name]


class _Unwritten:
    """Stands for an attribute of a class that is still to be written."""

    def __init__(self, name: str, plan: _Plan) -> None:
        self._name = name
        self._plan = plan

    def __get__(self, instance: object, owner: type) -> Any:
        found = self._plan.written(self._name)
        if hasattr(found, "__get__"):
            return found.__get__(instance, owner)
        return found


def _dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Any:
    def decorated(declared: type) -> type:
        plan = _Plan(declared, {"slots": slots, "frozen": frozen, "eq": eq})
        space = dict(declared.__dict__)
        own = [name for name, kind in space.get("__annotations__", {}).items() if _is_field(kind)]
        inherited: set[Any] = set()
        for base in declared.__mro__[1:-1]:
            for name in getattr(base, "__slots__", ()):
                inherited.add(name)
        for name in (*own, "__dict__", "__weakref__"):
            space.pop(name, None)
        if eq and space.get("__hash__") is None:
            if frozen:
                space["__hash__"] = _Unwritten("__hash__", plan)
            else:
                space["__hash__"] = None
        rest = ("__repr__", "__dataclass_params__", *(("__eq__",) if eq else ()))
        for name in (*_MADE_WITH, *(_FROZEN_WITH if frozen else ()), *rest):
            space.setdefault(name, _Unwritten(name, plan))
        space["__slots__"] = tuple(name for name in own if name not in inherited)
        plan.home = type(declared)(declared.__name__, declared.__bases__, space)
        plan.home.__qualname__ = declared.__qualname__
        return plan.home

    return decorated


def _is_field(kind: Any) -> bool:
    if isinstance(kind, str):
        return not kind.startswith(("ClassVar", "InitVar", "KW_ONLY"))
    return (
        get_origin(kind) is not ClassVar and kind is not KW_ONLY and not isinstance(kind, InitVar)
    )


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
