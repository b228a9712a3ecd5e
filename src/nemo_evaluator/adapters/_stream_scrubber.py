"""Secrets in streams: a server may say one in pieces, so the pieces are held back until it is clear what they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.secrets import MASK, encoded_forms, plain_forms, scrub_bytes

_Lane: TypeAlias = tuple[bytes, ...]
_PIECE: Final = re.compile(
    rb'"(content|reasoning_content|reasoning|text|arguments|delta|partial_json|thinking)":\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
)
_INDEX: Final = re.compile(rb'"(?:index|output_index|content_index)":\s*(\d+)')
# Fewer characters of a secret than this may pass: they are a common beginning such as `sk-`.
_CLUE: Final = 4
_SHORTEST: Final = 12


@dataclass(slots=True)
class _Piece:
    """A text in a held line, and where it stands there."""

    lane: _Lane
    text: str
    start: int
    end: int


class StreamScrubber:
    """Gives a stream back line by line, with whole and with split secrets masked."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._held: list[tuple[bytes, list[_Piece]]] = []
        self._said: dict[_Lane, str] = {}
        self._clues = frozenset(form[:_CLUE] for form in plain_forms)

    def feed(self, data: bytes) -> bytes:
        """What may go on to the agent."""
        at = data.rfind(b"\n") + 1
        if not at:
            self._partial.append(data)
            return b""
        block = b"".join((*self._partial, data[:at]))
        self._partial = [data[at:]] if at < len(data) else []
        return b"".join([self._line(line) for line in block.splitlines(keepends=True)])

    def finish(self) -> bytes:
        """The rest; what was held back was no whole secret."""
        rest = self._line(b"".join(self._partial)) if self._partial else b""
        self._partial = []
        return rest + self._release()

    def _line(self, line: bytes) -> bytes:
        if not self._held:
            if len(line) < _SHORTEST:
                return line
            line = _scrub_line(line)
            # The usual line has one piece of text, and nothing in it or across its border looks like a secret.
            found = _PIECE.findall(line)
            if not found:
                return line
            if len(found) == 1:
                lane = (found[0][0], *_INDEX.findall(line))
                said = self._said.get(lane, "") + _decoded(found[0][1])
                if not any(map(said.__contains__, self._clues)):
                    self._said[lane] = said[1 - _CLUE :]
                    return line
        else:
            line = _scrub_line(line)
        index = _INDEX.findall(line)
        pieces = [_Piece((m[1], *index), _decoded(m[2]), m.start(2), m.end(2)) for m in _PIECE.finditer(line)]
        self._held.append((line, pieces))
        lanes = {one.lane for _, held in self._held for one in held}
        return b"" if any(_may_go_on(self._text(lane)) for lane in lanes) else self._release()

    def _text(self, lane: _Lane) -> str:
        held = "".join(one.text for _, pieces in self._held for one in pieces if one.lane == lane)
        return self._said.get(lane, "") + held

    def _release(self) -> bytes:
        for lane in {one.lane for _, held in self._held for one in held}:
            text = self._text(lane)
            self._mask(lane, text)
            self._said[lane] = text[1 - _CLUE :]
        lines = [_written(line, pieces) for line, pieces in self._held]
        self._held = []
        return b"".join(lines)

    def _mask(self, lane: _Lane, text: str) -> None:
        """Empty the pieces of every secret in ``text``; the mask takes the place of its first held character."""
        hidden: set[int] = set()
        for form in plain_forms:
            at = text.find(form)
            while at >= 0:
                hidden.update(range(at, at + len(form)))
                at = text.find(form, at + len(form))
        begin = place = len(self._said.get(lane, ""))
        for one in (one for _, pieces in self._held for one in pieces if hidden and one.lane == lane):
            shown = []
            for at, letter in enumerate(one.text, place):
                first = at == begin or at - 1 not in hidden
                shown.append(letter if at not in hidden else MASK if first else "")
            place += len(one.text)
            one.text = "".join(shown)


def _scrub_line(line: bytes) -> bytes:
    if not any(map(line.__contains__, encoded_forms)):
        return line
    payload = line.removeprefix(b"data:").strip()
    try:
        return line.replace(payload, scrub_json(payload))
    except orjson.JSONDecodeError:
        return scrub_bytes(line)


def _decoded(text: bytes) -> str:
    if b"\\" not in text:
        return text.decode("utf-8", "replace")
    try:
        decoded: str = orjson.loads(b'"' + text + b'"')
    except orjson.JSONDecodeError:
        return text.decode("utf-8", "replace")
    return decoded


def _may_go_on(text: str) -> bool:
    """Whether a text ends in the beginning of a secret."""
    for form in plain_forms:
        at = text.find(form[:_CLUE], max(0, len(text) - len(form) + 1))
        while at >= 0:
            if form.startswith(text[at:]):
                return True
            at = text.find(form[:_CLUE], at + 1)
    return False


def _written(line: bytes, pieces: list[_Piece]) -> bytes:
    for one in reversed(pieces):
        if one.text != _decoded(line[one.start : one.end]):
            line = line[: one.start] + orjson.dumps(one.text)[1:-1] + line[one.end :]
    return line
