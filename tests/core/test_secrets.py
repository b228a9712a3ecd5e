"""Secrets that come back: whatever form a server gives them, they are found, and ordinary text is left alone."""

from __future__ import annotations

import base64
import json
from time import process_time
from urllib.parse import quote

import orjson
import pytest

from nemo_evaluator.core.files import scrub_json, write_json
from nemo_evaluator.core.secrets import (
    Secret,
    forget,
    remember_environment,
    remember_named,
    remember_urls,
    scrub,
)

ODD = 'pä/ss"w\\ord+0123'


@pytest.mark.parametrize("value", ["sk-forms-0123456789", ODD])
@pytest.mark.parametrize(
    "form",
    [
        str,
        lambda value: json.dumps(value)[1:-1],
        lambda value: json.dumps(value)[1:-1].replace("/", "\\/"),
        lambda value: orjson.dumps(value)[1:-1].decode(),
        lambda value: quote(value, safe=""),
        lambda value: base64.b64encode(value.encode()).decode(),
    ],
)
def test_every_form_is_found_in_text_and_in_json(value, form):
    Secret(value)
    text = f"you sent <{form(value)}>."
    assert form(value) not in scrub(text)
    record = {"a": [text, {form(value): 1}], "n": 3}
    clean = orjson.loads(scrub_json(orjson.dumps(record)))
    assert form(value) not in json.dumps(clean, ensure_ascii=False)
    assert clean["n"] == 3


def test_a_secret_of_digits_leaves_numbers_alone():
    Secret("1234567890")
    record = orjson.dumps({"n": 1234567890, "text": "it is 1234567890"})
    assert orjson.loads(scrub_json(record)) == {"n": 1234567890, "text": "it is ***"}


def test_placeholders_are_no_secrets():
    for value in ("EMPTY", "a", "", "none", "placeholder", "1234567"):
        Secret(value)
    text = "EMPTY a none placeholder 1234567"
    assert scrub(text) == text
    line = orjson.dumps({"text": text})
    assert scrub_json(line) is line


def test_names_at_any_depth_and_urls_make_secrets(tmp_path):
    remember_named(
        {"add": {"Authorization": "Bearer deep-0123456789"}, "list": [{"api_key": "deep-list-42"}]}
    )
    remember_environment({"HF_TOKEN": "hf_environment1", "OTHER_KEY": "not-well-known-1"})
    remember_urls(
        {
            "a": [
                "https://me:p%40ssw0rd12@h/v1",
                "http://h/v1?key=in-the-url-1&v=visible-9",
                "s://h?sig=signature-77",
            ]
        }
    )
    write_json(
        tmp_path / "x.json",
        "deep-0123456789 deep-list-42 hf_environment1 p@ssw0rd12 in-the-url-1 signature-77",
    )
    assert (tmp_path / "x.json").read_text() == '"*** *** *** *** *** ***"\n'
    assert scrub("not-well-known-1 visible-9") == "not-well-known-1 visible-9"


def test_a_version_a_task_and_a_digest_behind_an_at_sign_make_no_secret_of_what_is_before():
    names = (
        "harbor://swebench-verified@1.0",
        "inspect://suite.py@sums",
        "container://harness-image@sha256:ab#t",
    )
    remember_urls({"benchmarks": [{"name": name} for name in names]})
    assert [scrub(name) for name in names] == list(names)


def test_a_forgotten_secret_is_not_looked_for():
    secret = Secret("session-key-0001")
    assert scrub("session-key-0001") == "***"
    forget(secret)
    assert scrub("session-key-0001") == "session-key-0001"


@pytest.mark.serial
def test_looking_costs_next_to_nothing():
    line = orjson.dumps({"text": "word " * 200_000})
    started = process_time()
    assert scrub_json(line) is line
    assert process_time() - started < 0.1
