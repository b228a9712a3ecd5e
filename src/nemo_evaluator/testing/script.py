"""Scripts for the scripted server: answers, delays and faults, by rule or by random seed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import orjson
import yaml

from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.completions import text_of


class Fault(StrEnum):
    """The ways in which a server can misbehave."""

    RESET = "reset"
    CLOSE = "close"
    STALL = "stall"
    STALL_HEADERS = "stall_headers"
    STALL_BODY = "stall_body"
    TRUNCATED_JSON = "truncated_json"
    TRUNCATED_BODY = "truncated_body"
    MALFORMED_JSON = "malformed_json"
    NOT_AN_OBJECT = "not_an_object"
    EMPTY_BODY = "empty_body"
    EMPTY_CHOICES = "empty_choices"
    NULL_CHOICES = "null_choices"
    NO_MESSAGE = "no_message"
    WRONG_TYPE = "wrong_type"
    HUGE = "huge"
    BAD_ENCODING = "bad_encoding"
    BAD_HTTP = "bad_http"
    STREAM_ERROR = "stream_error"
    STREAM_RESET = "stream_reset"
    STREAM_STALL = "stream_stall"
    STREAM_NO_END = "stream_no_end"


@dataclass(slots=True)
class Say:
    """A scripted answer."""

    text: str = "ok"
    status: int = 200
    delay: float = 0.0
    jitter: float = 0.0
    fault: Fault | None = None
    message: str | None = None
    retry_after: str | float | None = None
    headers: dict[str, str] = field(default_factory=dict)
    finish_reason: str = "stop"
    usage: JsonDict | None = None
    reasoning: str | None = None
    reasoning_field: str = "reasoning_content"
    tool_calls: list[JsonDict] = field(default_factory=list)
    logprobs: JsonDict | None = None
    chunks: int = 0
    chunk_delay: float = 0.0
    size: int = 50_000_000
    body: Any = None
    # The answer as raw bytes including headers; then ``endless`` repeatedly. After that, the connection is closed.
    raw: bytes | None = None
    endless: bytes = b""

    def __post_init__(self) -> None:
        if self.fault is not None:
            self.fault = Fault(self.fault)

    @classmethod
    def of(cls, value: Answer) -> Say:
        """Convert a text or a mapping of fields to an answer; an answer is returned as it is.

        Raises:
            UsageError: A field is unknown.
        """
        if isinstance(value, Say):
            return value
        if isinstance(value, str):
            return cls(value)
        field_names = {item.name for item in fields(cls)}
        unknown_names = sorted(set(value) - field_names)
        if unknown_names:
            raise UsageError(
                f"unknown field {unknown_names[0]!r} of an answer",
                hint=f"known: {', '.join(sorted(field_names))}",
            )
        return cls(**value)


@dataclass
class Seen:
    """A request as the server received it; the JSON body is parsed on first access."""

    index: int
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    cancelled: bool = False

    @cached_property
    def body(self) -> JsonDict:
        """The JSON body; empty if it is not an object."""
        if self.raw:
            document: Any | dict[Any, Any] = orjson.loads(self.raw)
        else:
            document = {}
        if isinstance(document, dict):
            return document
        return {}

    @cached_property
    def prompt(self) -> str:
        """The text of the last message, or the prompt of a completion."""
        body = self.body
        messages = body.get("messages") or body.get("input")
        if isinstance(messages, list) and messages:
            last_message = messages[-1]
            if isinstance(last_message, dict):
                content = last_message.get("content", "")
            else:
                content = last_message
            return text_of(content)
        return str(messages or body.get("prompt", ""))


Answer: TypeAlias = str | Say | Mapping[str, Any]


@dataclass(slots=True)
class Rule:
    """Sends an answer to matching requests.

    All given conditions must hold.

    Attributes:
        say: The answer.
        contains: A substring of the prompt.
        regex: A regular expression to find in the prompt.
        index: The arrival number of the request, from 0.
        times: The maximum number of requests to answer.
        path: A substring of the request path.
        used: The number of requests answered so far.
    """

    say: Answer
    contains: str | None = None
    regex: str | None = None
    index: int | None = None
    times: int | None = None
    path: str | None = None
    used: int = 0

    def matches(self, seen: Seen) -> bool:
        """Return whether this rule answers a request."""
        return (
            (self.times is None or self.used < self.times)
            and self.index in (None, seen.index)
            and (self.path is None or self.path in seen.path)
            and (self.contains is None or self.contains in seen.prompt)
            and (self.regex is None or re.search(self.regex, seen.prompt) is not None)
        )


Script: TypeAlias = Answer | Sequence[Answer | Rule] | Mapping[str, Any] | Callable[[Seen], Answer]


class Playbook:
    """Chooses the answer to each request from a script.

    A text or an answer is sent to every request. The items of a list are sent in the order of arrival, the last one to
    all further requests. Rules are tried in order; a plain answer among them always matches. A callable chooses the
    answer itself.

    Attributes:
        constant: The answer to every request, if the script is only that.
    """

    def __init__(self, script: Script, answers: Mapping[str, str] | None = None) -> None:
        self._answers = dict(answers or {})
        self._call: Callable[[Seen], Answer] | None = None
        self._rules: list[Rule] = []
        self._turns: list[Say] = []
        self.constant: Say | None = None
        if callable(script):
            self._call = script
        elif isinstance(script, (str, Say, Mapping)):
            self._turns = [Say.of(script)]
            if not self._answers:
                self.constant = self._turns[0]
        elif any(isinstance(item, Rule) for item in script):
            self._rules = [item if isinstance(item, Rule) else Rule(item) for item in script]
        else:
            self._turns = [Say.of(item) for item in script if not isinstance(item, Rule)] or [Say()]

    def answer(self, seen: Seen) -> Say:
        """Return the answer to a request."""
        if self._answers:
            prepared_text = self._answers.get(seen.prompt)
            if prepared_text is not None:
                return Say(prepared_text)
        if self._call is not None:
            return Say.of(self._call(seen))
        for rule in self._rules:
            if rule.matches(seen):
                rule.used += 1
                return Say.of(rule.say)
        if self._rules:
            return Say(status=400, message="no rule of the script matches this request")
        return self._turns[min(seen.index, len(self._turns) - 1)]


def load_script(path: Path) -> Script:
    """Load a script from a YAML or JSON file: one answer, a list of answers, or a list of rules (items with ``say``).

    Raises:
        UsageError: The file is not a valid script.
    """
    try:
        loaded = load_yaml(path.read_bytes())
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: {error}") from error
    if isinstance(loaded, list):
        items: list[str | Say | Mapping[str, Any] | Rule] = []
        for item in loaded:
            is_rule = isinstance(item, dict) and "say" in item
            items.append(Rule(**item) if is_rule else item)
        return items
    if isinstance(loaded, (str, dict)):
        return loaded
    raise UsageError(f"{path}: a script is a text, a mapping or a list")


@dataclass(slots=True)
class Weather:
    """Random faults, reproducible by their seed, and a rate limit.

    Attributes:
        p500: The share of requests that get a 500.
        p429: The share of requests that get a 429.
        preset: The share of connections that are reset.
        pstall: The share of requests that stall.
        rate_limit: The number of requests per second; further ones get a 429.
        burst: The number of requests allowed in a burst; by default one second's worth.
        retry_after: The Retry-After header of 429s, in seconds.
        seed: The random seed.
        stalls: The kind of stall.
    """

    p500: float = 0.0
    p429: float = 0.0
    preset: float = 0.0
    pstall: float = 0.0
    rate_limit: float | None = None
    burst: float | None = None
    retry_after: float | None = None
    seed: int = 0
    stalls: Fault = Fault.STALL
    _random: random.Random = field(default_factory=random.Random)
    _tokens: float = 0.0
    _last: float | None = None

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    @property
    def calm(self) -> bool:
        """Whether no fault and no limit is set."""
        return not (self.p500 or self.p429 or self.preset or self.pstall or self.rate_limit)

    def strike(self, now: float) -> Say | None:
        """Return the fault for a request that arrives at the time ``now``; None for a normal answer."""
        if self.rate_limit and not self._take(now):
            return Say(status=429, message="rate limit reached", retry_after=self.retry_after)
        server_error = Say(status=500, message="the server stumbled")
        busy_error = Say(status=429, message="too busy")
        busy_error.retry_after = self.retry_after
        faults = (
            (self.p500, server_error),
            (self.preset, Say(fault=Fault.RESET)),
            (self.pstall, Say(fault=self.stalls)),
        )
        draw = self._random.random()
        cumulative_share = 0.0
        for share, say in (*faults, (self.p429, busy_error)):
            cumulative_share += share
            if draw < cumulative_share:
                return say
        return None

    def _take(self, now: float) -> bool:
        """Take a token from the rate limiter's bucket; return whether there was one."""
        rate = self.rate_limit or 0.0
        capacity = self.burst if self.burst is not None else rate
        if self._last is None:
            self._tokens = capacity
        else:
            self._tokens = min(capacity, self._tokens + (now - self._last) * rate)
        self._last = now
        is_allowed = self._tokens >= 1
        self._tokens -= is_allowed
        return is_allowed
