"""Secrets that a stream says in pieces."""

from __future__ import annotations

import json

import pytest

from nemo_evaluator.adapters._stream_scrubber import StreamScrubber
from nemo_evaluator.core.secrets import Secret

KEY = 'zq-stream/"\\-0123456789'
Secret(KEY)


def _event(text, field="content", index=0):
    choice = {"index": index, "delta": {field: text}}
    return b"data: " + json.dumps({"id": "x", "choices": [choice]}).encode() + b"\n\n"


def _through(data, size):
    scrubber = StreamScrubber()
    parts = [scrubber.feed(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join([*parts, scrubber.finish()])


def _said(data, field="content", index=0):
    events = [
        json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: {")
    ]
    choices = [
        choice for event in events for choice in event["choices"] if choice["index"] == index
    ]
    return "".join(choice["delta"].get(field, "") for choice in choices)


def _pieces(text, size):
    return [text[at : at + size] for at in range(0, len(text), size)]


@pytest.mark.parametrize("bytes_at_once", [1, 7, 100_000])
@pytest.mark.parametrize("size", [1, 2, 5, 13, 100])
def test_a_key_in_pieces_of_any_size_is_masked(size, bytes_at_once):
    text = f"before {KEY} between {KEY}{KEY} after"
    data = b"".join(map(_event, _pieces(text, size))) + b"data: [DONE]\n\n"
    clean = _through(data, bytes_at_once)
    said = _said(clean)
    assert KEY[4:] not in said
    assert said.startswith("before ")
    assert " between " in said
    assert said.endswith(" after")
    assert said.count("***") in (2, 3)
    assert clean.endswith(b"data: [DONE]\n\n")


def test_choices_and_fields_do_not_hide_each_other():
    pairs = zip(_pieces(KEY, 3), _pieces(KEY, 3), strict=True)
    data = b"".join(_event(a, index=0) + _event(b, "arguments", index=1) for a, b in pairs)
    clean = _through(data, 64)
    assert _said(clean) == "zq-***"
    assert _said(clean, "arguments", 1) == "zq-***"


def test_what_is_no_secret_passes_byte_for_byte():
    text = f'zq-stream/ is {KEY[:-1]}! \u00e4 "quoted" ' + KEY[:9]
    data = (
        b": comment\r\n\r\n" + b"".join(map(_event, _pieces(text, 4))) + b"data: not json\n\nlast"
    )
    for size in (1, 50, 100_000):
        assert _through(data, size) == data


def test_ordinary_text_is_not_held_back():
    scrubber = StreamScrubber()
    for word in ("Hello", " there", " zq", " world"):
        assert scrubber.feed(_event(word)) == _event(word)
