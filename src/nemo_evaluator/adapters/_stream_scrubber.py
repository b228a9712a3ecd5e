"""Masks secrets in streams. A server may send a secret in two chunks, so text that may begin one is held back."""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from nemo_evaluator.core.files import scrub_json
from nemo_evaluator.core.secrets import MASK, encoded_forms, plain_forms, scrub_bytes

# One text of an answer that grows over several events: the name of its field, and the indexes in the event.
_Field: TypeAlias = tuple[bytes, ...]
_TEXT: Final = re.compile(
    rb'"(content|reasoning_content|reasoning|text|arguments|delta|partial_json|thinking)":\s*"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
)
_INDEX: Final = re.compile(rb'"(?:index|output_index|content_index)":\s*(\d+)')
# Fewer characters of a secret than this may pass: they are a common beginning such as `sk-`.
_CLUE: Final = 4
# A shorter line holds no text.
_SHORTEST_LINE: Final = 12


@dataclass(slots=True)
class _Text:
    """A text in a line that is held back.

    Attributes:
        field: The growing text that it continues.
        text: The decoded text.
        start: Where it begins in the line, in bytes.
        end: Where it ends in the line.
        shown: What replaces each character, if a part of the text is masked.
    """

    field: _Field
    text: str
    start: int
    end: int
    shown: list[str] | None = None


@dataclass(slots=True)
class _HeldLine:
    """A line that is held back, and the texts in it."""

    line: bytes
    texts: list[_Text]

    def written(self) -> bytes:
        """The line with its masked texts."""
        line = self.line
        # From the end, so that the earlier positions stay right.
        for text in reversed(self.texts):
            if text.shown is not None:
                encoded = orjson.dumps("".join(text.shown))[1:-1]
                line = line[: text.start] + encoded + line[text.end :]
        return line


class StreamScrubber:
    """Returns a stream line by line, with whole and with split secrets masked."""

    def __init__(self) -> None:
        self._partial: list[bytes] = []
        self._held: list[_HeldLine] = []
        # The last characters of each growing text that has been sent.
        self._sent: dict[_Field, str] = {}
        self._clues = frozenset(form[:_CLUE] for form in plain_forms)

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of a stream, and return the bytes that may be sent to the agent."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._partial.append(data)
            return b""
        block = b"".join((*self._partial, data[:end]))
        self._partial = [data[end:]] if end < len(data) else []
        return b"".join([self._line(line) for line in block.splitlines(keepends=True)])

    def finish(self) -> bytes:
        """Return the rest of the stream: the held lines turned out not to contain a whole secret."""
        last_lines = b""
        if self._partial:
            last_lines = self._line(b"".join(self._partial))
        self._partial = []
        return last_lines + b"".join([held_line.written() for held_line in self._held])

    def _line(self, line: bytes) -> bytes:
        """Take one line, and return the lines that may be sent."""
        if not self._held and len(line) < _SHORTEST_LINE:
            return line
        line = _scrub_line(line)
        # The usual line has one text, and neither the text nor its border to the one before looks like a secret.
        if not self._held:
            matches = _TEXT.findall(line)
            if not matches:
                return line
            if len(matches) == 1:
                name, raw_text = matches[0]
                field = (name, *_INDEX.findall(line))
                text = self._sent.get(field, "") + _decoded(raw_text)
                if not any(map(text.__contains__, self._clues)):
                    self._sent[field] = text[1 - _CLUE :]
                    return line
        self._hold(line)
        fields = {text.field for held_line in self._held for text in held_line.texts}
        open_ends = {field: self._mask(field) for field in fields}
        return self._release(open_ends)

    def _hold(self, line: bytes) -> None:
        """Hold a line back, with the texts in it."""
        indexes = _INDEX.findall(line)
        texts: list[_Text] = []
        for match in _TEXT.finditer(line):
            field = (match[1], *indexes)
            texts.append(_Text(field, _decoded(match[2]), match.start(2), end=match.end(2)))
        self._held.append(_HeldLine(line, texts))

    def _mask(self, field: _Field) -> int:
        """Mask every whole secret in the held texts of a field.

        Returns:
            How many characters at the end of the text may be the beginning of a secret.
        """
        texts: list[_Text] = []
        for held_line in self._held:
            texts += [text for text in held_line.texts if text.field == field]
        sent_text = self._sent.get(field, "")
        whole_text = sent_text + "".join([text.text for text in texts])
        for form in plain_forms:
            start = whole_text.find(form)
            while start >= 0:
                secret_start = start - len(sent_text)
                _hide(texts, secret_start, secret_start + len(form))
                start = whole_text.find(form, start + len(form))
        return _open_end(whole_text)

    def _release(self, open_ends: dict[_Field, int]) -> bytes:
        """Return the first held lines, up to one whose text may belong to an unfinished secret.

        Args:
            open_ends: How many characters at the end of each field must be held back.
        """
        following = dict.fromkeys(open_ends, 0)
        for held_line in self._held:
            for text in held_line.texts:
                following[text.field] += len(text.text)
        released = 0
        for held_line in self._held:
            for text in held_line.texts:
                following[text.field] -= len(text.text)
            if any(following[text.field] < open_ends[text.field] for text in held_line.texts):
                break
            released += 1
        lines = self._held[:released]
        self._held = self._held[released:]
        for held_line in lines:
            for text in held_line.texts:
                sent_text = self._sent.get(text.field, "") + text.text
                self._sent[text.field] = sent_text[1 - _CLUE :]
        return b"".join([held_line.written() for held_line in lines])


def _hide(texts: list[_Text], start: int, end: int) -> None:
    """Hide the characters from ``start`` to ``end`` of consecutive texts; the first text gets the mask."""
    mask = MASK
    offset = 0
    for text in texts:
        hidden_start = max(start - offset, 0)
        hidden_end = min(end - offset, len(text.text))
        if hidden_start < hidden_end:
            text.shown = text.shown or list(text.text)
            text.shown[hidden_start:hidden_end] = [mask, *[""] * (hidden_end - hidden_start - 1)]
            mask = ""
        offset += len(text.text)


def _scrub_line(line: bytes) -> bytes:
    """A line with the secrets masked that are whole inside it."""
    if not any(map(line.__contains__, encoded_forms)):
        return line
    payload = line.removeprefix(b"data:").strip()
    try:
        return line.replace(payload, scrub_json(payload))
    except orjson.JSONDecodeError:
        return scrub_bytes(line)


def _decoded(text: bytes) -> str:
    """The text of a JSON string without its quotes."""
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
        clue = form[:_CLUE]
        start = text.find(clue, max(0, len(text) - len(form) + 1))
        while start >= 0 and len(text) - start > longest:
            if form.startswith(text[start:]):
                longest = len(text) - start
            start = text.find(clue, start + 1)
    return longest
