"""All tools of one problem under one roof: names told apart, calls routed by name, output cut to size."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, ToolCallInfo
from nemo_evaluator.solvers.tools.base import Tool, ToolResult, ToolSession

_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LIMIT: Final = 64
_SHOWN_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Outcome:
    """One call that was answered."""

    call: ToolCallInfo
    result: ToolResult
    source: str
    latency_ms: float


@dataclass(frozen=True, slots=True)
class _Route:
    session: ToolSession
    tool: Tool


class Toolbox:
    """Calls of one turn run side by side; a source that must keep their order does so itself."""

    def __init__(self, routes: dict[str, _Route], definitions: list[JsonDict], timeout: float, limit: int) -> None:
        self._routes, self.definitions = routes, definitions
        self._timeout, self._limit = timeout, limit

    @classmethod
    async def of(
        cls, sessions: Sequence[ToolSession], wanted: Sequence[Any] | None, timeout: float, max_output_chars: int
    ) -> Self:
        """The tools of all sessions; ``wanted`` (the problem's own definitions) narrows and describes them anew.

        Raises SeedError when a problem wants a tool that no source has, or when there is no tool at all.
        """
        routes: dict[str, _Route] = {}
        for session in sessions:
            for tool in await session.tools():
                routes[_free_name(tool.name, session.name, routes)] = _Route(session, tool)
        definitions = [route.tool.definition(name) for name, route in routes.items()]
        if wanted:
            definitions = [_chat_shape(one) for one in wanted]
            names = [one["function"]["name"] for one in definitions]
            missing = [name for name in names if name not in routes]
            if missing:
                offered = f"(offered: {', '.join(routes) or 'none'})"
                raise SeedError(f"the problem wants tools that no source offers: {', '.join(missing)} {offered}")
            routes = {name: routes[name] for name in names}
        if not routes:
            raise SeedError("no source offers any tool", hint="check resource_service, mcp_servers and sandbox_tools")
        return cls(routes, definitions, timeout, max_output_chars)

    async def run(self, calls: Sequence[ToolCallInfo]) -> list[Outcome]:
        """Answer every call, in the order of the calls."""
        answered = await asyncio.gather(*(self._run(call) for call in calls), return_exceptions=True)
        for outcome in answered:
            # Raised only now, when no call of the turn is still running.
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in answered if isinstance(outcome, Outcome)]

    async def _run(self, call: ToolCallInfo) -> Outcome:
        started = time.perf_counter()
        route = self._routes.get(call.name)
        source = route.session.name if route is not None else ""
        if route is None:
            result = self._unknown(call.name)
        elif (broken := malformed(call.arguments, route.tool.parameters)) is not None:
            result = ToolResult(broken, is_error=True)
        else:
            result = await route.session.call(route.tool.name, call.arguments, self._timeout)
        cut = ToolResult(truncate(result.content, self._limit), result.is_error)
        return Outcome(call, cut, source, (time.perf_counter() - started) * 1000)

    def _unknown(self, name: str) -> ToolResult:
        # A name may be as long as a model's answer; comparing it would take minutes.
        given = name if len(name) <= _SHOWN_NAME else f"{name[:_SHOWN_NAME]}..."
        hint = did_you_mean(given, self._routes, also=f"Available tools: {', '.join(self._routes)}.")
        return ToolResult(f"There is no tool named {given!r}. {hint[0].upper()}{hint[1:]}", is_error=True)


def malformed(arguments: JsonDict, schema: JsonDict) -> str | None:
    """What is wrong with arguments that were no JSON object (those are kept as ``{"raw": text}``)."""
    if set(arguments) != {"raw"} or "raw" in (schema.get("properties") or {}):
        return None
    return f"The arguments are not a valid JSON object: {truncate(str(arguments['raw']), 500)}"


def truncate(text: str, limit: int) -> str:
    """Head and tail of a text that is too long, with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    gone = f"... [truncated {len(text) - limit} chars] ..."
    return f"{text[: limit - tail]}\n\n{gone}\n\n{text[len(text) - tail :]}"


def _free_name(name: str, source: str, taken: dict[str, _Route]) -> str:
    """A name the protocol allows; one that is taken gets the name of its source in front."""
    plain = _ALLOWED.sub("_", name)[:_NAME_LIMIT] or "tool"
    if plain in taken:
        plain = _ALLOWED.sub("_", f"{source}_{name}")[:_NAME_LIMIT]
    number, free = 2, plain
    while free in taken:
        free = f"{plain[: _NAME_LIMIT - 4]}_{number}"
        number += 1
    return free


def _chat_shape(given: Any) -> JsonDict:
    """A tool definition of a dataset, in the chat protocol or in that of the Responses API."""
    function = as_dict(as_dict(given).get("function")) or as_dict(given)
    if isinstance(function.get("name"), str):
        kept = {key: function[key] for key in ("name", "description", "parameters", "strict") if key in function}
        return {"type": "function", "function": kept}
    raise SeedError(f"the problem's tools hold something that is no function: {str(given)[:200]}")
