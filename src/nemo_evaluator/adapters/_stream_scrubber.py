"""Secrets in streams: a server may say one in pieces, so the pieces are held back until it is clear what they are."""

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
    """A text in a held line, where it stands there, and what is shown of it if not all."""

    lane: _Lane
    text: str
    start: int
    end: int
    shown: list[str] | None = None


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
        if at < len(data):
            self._partial = [data[at:]]
        else:
            self._partial = []
        return b"".join([self._line(line) for line in block.splitlines(keepends=True)])

    def finish(self) -> bytes:
        """The rest; what was held back was no whole secret."""
        if self._partial:
            rest = self._line(b"".join(self._partial))
        else:
            rest = b""
        self._partial = []
        return rest + b"".join([_written(line, pieces) for line, pieces in self._held])

    def _line(self, line: bytes) -> bytes:
        if not self._held and len(line) < _SHORTEST:
            return line
        line = _scrub_line(line)
        if not self._held:
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
        index = _INDEX.findall(line)
        pieces: list[_Piece] = []
        for m in _PIECE.finditer(line):
            pieces.append(_Piece((m[1], *index), _decoded(m[2]), m.start(2), end=m.end(2)))
        self._held.append((line, pieces))
        open_ends = {
            lane: self._mask(lane) for lane in {one.lane for _, held in self._held for one in held}
        }
        return self._release(open_ends)

    def _mask(self, lane: _Lane) -> int:
        """Mask every whole secret of a lane; returns how many characters at its end may be the beginning of one."""
        held: list[_Piece] = []
        for _, pieces in self._held:
            for one in pieces:
                if one.lane == lane:
                    held.append(one)
        said = self._said.get(lane, "")
        text = said + "".join([one.text for one in held])
        for form in plain_forms:
            at = text.find(form)
            while at >= 0:
                _hide(held, at - len(said), at - len(said) + len(form))
                at = text.find(form, at + len(form))
        return _open_end(text)

    def _release(self, open_ends: dict[_Lane, int]) -> bytes:
        """The first held lines, up to one whose text may belong to a secret that goes on."""
        left = dict.fromkeys(open_ends, 0)
        for _, pieces in self._held:
            for one in pieces:
                left[one.lane] += len(one.text)
        done = 0
        for _, pieces in self._held:
            for one in pieces:
                left[one.lane] -= len(one.text)
            if any(left[one.lane] < open_ends[one.lane] for one in pieces):
                break
            done += 1
        going = self._held[:done]
        self._held = self._held[done:]
        for one in (one for _, pieces in going for one in pieces):
            self._said[one.lane] = (self._said.get(one.lane, "") + one.text)[1 - _CLUE :]
        return b"".join([_written(line, pieces) for line, pieces in going])


def _hide(pieces: list[_Piece], start: int, end: int) -> None:
    """Hide the characters from ``start`` to ``end`` of pieces that follow each other, with a mask in the first one."""
    mask = MASK
    place = 0
    for one in pieces:
        first = max(start - place, 0)
        last = min(end - place, len(one.text))
        if first < last:
            one.shown = one.shown or list(one.text)
            one.shown[first:last] = [mask, *[""] * (last - first - 1)]
            mask = ""
        place += len(one.text)


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


def _open_end(text: str) -> int:
    """The length of the longest end of a text that is the beginning of a secret."""
    longest = 0
    for form in plain_forms:
        at = text.find(form[:_CLUE], max(0, len(text) - len(form) + 1))
        while at >= 0 and len(text) - at > longest:
            if form.startswith(text[at:]):
                longest = len(text) - at
            at = text.find(form[:_CLUE], at + 1)
    return longest


def _written(line: bytes, pieces: list[_Piece]) -> bytes:
    for one in reversed(pieces):
        if one.shown is not None:
            line = line[: one.start] + orjson.dumps("".join(one.shown))[1:-1] + line[one.end :]
    return line
