"""Scripts of a scripted server: answers, delays and faults, by rule or by seed."""

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
    """Ways in which a server misbehaves."""

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
    """One scripted answer."""

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
    # The answer as bytes, head and all; ``endless`` is then sent again and again. The connection is closed after it.
    raw: bytes | None = None
    endless: bytes = b""

    def __post_init__(self) -> None:
        if self.fault is not None:
            self.fault = Fault(self.fault)

    @classmethod
    def of(cls, value: Answer) -> Say:
        """A text, a mapping of fields or a ready answer."""
        if isinstance(value, Say):
            return value
        if isinstance(value, str):
            return cls(value)
        known = {item.name for item in fields(cls)}
        unknown = sorted(set(value) - known)
        if unknown:
            raise UsageError(
                f"unknown field {unknown[0]!r} of an answer",
                hint=f"known: {', '.join(sorted(known))}",
            )
        return cls(**value)


@dataclass
class Seen:
    """One request as the server saw it; the JSON body is parsed when someone asks for it."""

    index: int
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    cancelled: bool = False

    @cached_property
    def body(self) -> JsonDict:
        """The JSON body."""
        if self.raw:
            parsed: Any | dict[Any, Any] = orjson.loads(self.raw)
        else:
            parsed = {}
        if isinstance(parsed, dict):
            return parsed
        return {}

    @cached_property
    def prompt(self) -> str:
        """The text of the last message, or the prompt of a completion."""
        body = self.body
        messages = body.get("messages") or body.get("input")
        if isinstance(messages, list) and messages:
            last = messages[-1]
            if isinstance(last, dict):
                content = last.get("content", "")
            else:
                content = last
            return text_of(content)
        return str(messages or body.get("prompt", ""))


Answer: TypeAlias = str | Say | Mapping[str, Any]


@dataclass(slots=True)
class Rule:
    """Say something to the requests that match: by substring, regex or arrival number, at most ``times`` times."""

    say: Answer
    contains: str | None = None
    regex: str | None = None
    index: int | None = None
    times: int | None = None
    path: str | None = None
    used: int = 0

    def matches(self, seen: Seen) -> bool:
        """Whether this rule answers ``seen``."""
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
    all further requests. Rules are tried in order; a plain answer among them always matches. A callable decides itself.

    Attributes:
        constant: The answer to every request, when the script is only that.
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
        """The answer to a request."""
        if self._answers:
            known = self._answers.get(seen.prompt)
            if known is not None:
                return Say(known)
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
    """A script from a YAML or JSON file: one answer, a list of answers, or a list of rules (items with ``say``)."""
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
    """Random faults, the same ones for the same seed, and a limit of requests per second."""

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
        """True when no fault and no limit is set."""
        return not (self.p500 or self.p429 or self.preset or self.pstall or self.rate_limit)

    def strike(self, now: float) -> Say | None:
        """The fault for a request that arrives at ``now``; None for a normal answer."""
        if self.rate_limit and not self._take(now):
            return Say(status=429, message="rate limit reached", retry_after=self.retry_after)
        stumble = Say(status=500, message="the server stumbled")
        busy = Say(status=429, message="too busy")
        busy.retry_after = self.retry_after
        falls = (
            (self.p500, stumble),
            (self.preset, Say(fault=Fault.RESET)),
            (self.pstall, Say(fault=self.stalls)),
        )
        draw = self._random.random()
        reached = 0.0
        for share, say in (*falls, (self.p429, busy)):
            reached += share
            if draw < reached:
                return say
        return None

    def _take(self, now: float) -> bool:
        rate = self.rate_limit or 0.0
        size = self.burst if self.burst is not None else rate
        if self._last is None:
            self._tokens = size
        else:
            self._tokens = min(size, self._tokens + (now - self._last) * rate)
        self._last = now
        enough = self._tokens >= 1
        self._tokens -= enough
        return enough
