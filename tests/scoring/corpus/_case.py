"""A case of the corpus, and how templates become cases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HELD_OUT_EVERY = 3


@dataclass(frozen=True, slots=True)
class Case:
    """One answer with the verdict that a reader gives."""

    scorer: str
    kind: str
    held_out: bool
    response: str
    target: str
    right: bool
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """What the slots of a template may be filled with: the right value, wrong ones, and texts by slot."""

    target: str
    right: str
    wrong: tuple[str, str]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    slots: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


def cases(
    scorer: str, templates: Mapping[str, Sequence[str]], items: Sequence[Item], share: int = 1
) -> Iterator[Case]:
    """Every template over every ``share``-th item (shifted, so that all are used)."""
    number = 0
    for kind, listed in templates.items():
        for template in listed:
            number += 1
            held_out = number % HELD_OUT_EVERY == 0
            for item in items[number % share :: share]:
                yield from _filled(scorer, kind, held_out, template, item)


def _filled(scorer: str, kind: str, held_out: bool, template: str, item: Item) -> Iterator[Case]:
    commits = "%x" in template or "%X" in template
    first, second = item.wrong
    fillings = ((item.right, first, second), (first, item.right, second)) if commits else ()
    if not commits:
        fillings = (
            ((None, item.right, first), (None, first, item.right))
            if "%z" in template.lower()
            else ((None, item.right, first),)
        )
    for said, other, third in fillings:
        text = template
        for slot, value in zip("xyz", (said, other, third), strict=True):
            if value is not None:
                text = text.replace(f"%{slot}", value).replace(
                    f"%{slot.upper()}", item.texts.get(value, value)
                )
        for slot, value in item.slots.items():
            text = text.replace(slot, value)
        yield Case(scorer, kind, held_out, text, item.target, said == item.right, item.metadata)
