"""Classes whose methods are written on first use are dataclasses in all else."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest
from pydantic import TypeAdapter

from nemo_evaluator.core.values import asdict, dataclass, field, fields, replace


@dataclass(frozen=True, slots=True)
class Point:
    """A place."""

    x: int
    y: int = 0
    tags: tuple[str, ...] = field(default=(), compare=False)
    origin: ClassVar[str] = "corner"


@dataclass(frozen=True, slots=True)
class Solid(Point):
    z: int = field(kw_only=True)


@dataclass(slots=True)
class Bag:
    items: list[int] = field(default_factory=list)
    total: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        self.total = sum(self.items)


class Named(Bag):
    """A plain class over one of these."""

    def __init__(self, name: str) -> None:
        super().__init__([1, 2])
        self.name = name


@dataclasses.dataclass
class Weighed(Bag):
    """The library's own over one of these, before that was used."""

    weight: float = 1.0


def test_instances_are_made_shown_and_compared() -> None:
    assert repr(Point(1, tags=("a",))) == "Point(x=1, y=0, tags=('a',))"
    assert Point(1, tags=("a",)) == Point(1) != Point(2)
    assert hash(Point(1, tags=("a",))) == hash(Point(1)) and len({Point(1), Point(1, 0)}) == 1
    assert Bag([1, 2]) == Bag([1, 2]) and Bag().items is not Bag().items and Bag([3]).total == 3
    with pytest.raises(TypeError, match="unhashable"):
        hash(Bag())
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


def test_frozen_ones_and_their_slots_hold() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del Point(1).x  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Bag().other = 1  # type: ignore[attr-defined]
    assert not hasattr(Point(1), "__dict__")


def test_subclasses_know_the_fields_of_their_bases() -> None:
    assert [one.name for one in fields(Solid)] == ["x", "y", "tags", "z"]
    assert Solid.__dict__["__slots__"] == ("z",) and Solid(1, z=3) == Solid(1, 0, z=3)
    assert Named("n").total == 3 and Named("n").name == "n"
    assert Weighed([4]) == Weighed([4], 1.0) and Weighed([4]).total == 4


def test_the_library_takes_them_for_its_own() -> None:
    assert (
        dataclasses.is_dataclass(Point) and Point.origin == "corner" and Point.__doc__ == "A place."
    )
    assert replace(Point(1), y=2) == Point(1, 2) and asdict(Solid(1, z=3)) == {
        "x": 1,
        "y": 0,
        "tags": (),
        "z": 3,
    }
    match Point(1, 2):
        case Point(a, b):
            assert (a, b) == (1, 2)
    for one in (Point(1, tags=("a",)), Solid(1, z=2), Bag([1])):
        assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one) == copy.deepcopy(one)
    assert TypeAdapter(Point).validate_python({"x": "1", "y": 2}) == Point(1, 2)


def test_nothing_is_written_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bool] = []
    library = dataclasses.dataclass

    def counted(**options: bool) -> Any:
        written.append(options.get("repr", True))
        return library(**options)  # type: ignore[call-overload]

    monkeypatch.setattr(dataclasses, "dataclass", counted)

    @dataclass(frozen=True, slots=True)
    class One:
        x: int

    assert not written
    one = One(1)
    assert one.x == 1 and written == [False]
    assert one == One(1) and repr(one).endswith("One(x=1)") and written == [False, True]


def test_a_thread_that_comes_second_finds_what_the_first_has_written() -> None:
    @dataclass(frozen=True, slots=True)
    class One:
        x: int

    found = One.__dict__["__init__"]
    assert One(1).x == 1
    one = object.__new__(One)
    found.__get__(one, One)(2)
    assert one.x == 2
