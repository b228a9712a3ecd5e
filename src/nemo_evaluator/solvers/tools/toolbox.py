"""All tools of one problem under one roof: names told apart, calls routed by name, output cut to size."""

import asyncio
import re
import time
from collections.abc import Container, Sequence
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
    """One call that was answered: what is recorded of it."""

    id: str
    name: str
    source: str
    content: str
    is_error: bool
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Calls of one turn run side by side; a source that must keep their order does so itself."""

    routes: dict[str, tuple[ToolSession, Tool]]
    definitions: list[JsonDict]
    timeout: float
    limit: int

    @classmethod
    async def of(
        cls,
        sessions: Sequence[ToolSession],
        wanted: Sequence[Any] | None,
        timeout: float,
        max_output_chars: int,
    ) -> Self:
        """The tools of all sessions; ``wanted`` (the problem's own definitions) narrows and describes them anew.

        Raises SeedError when a problem wants a tool that no source has, or when there is no tool at all.
        """
        routes: dict[str, tuple[ToolSession, Tool]] = {}
        for session in sessions:
            for tool in await session.tools():
                routes[_free_name(tool.name, session.name, routes)] = session, tool
        definitions = [tool.definition(name) for name, (_, tool) in routes.items()]
        if wanted:
            definitions = [_chat_shape(one) for one in wanted]
            names = [one["function"]["name"] for one in definitions]
            missing = [name for name in names if name not in routes]
            if missing:
                offered = f"(offered: {', '.join(routes) or 'none'})"
                raise SeedError(
                    f"the problem wants tools that no source offers: {', '.join(missing)} {offered}"
                )
            routes = {name: routes[name] for name in names}
        if not routes:
            raise SeedError(
                "no source offers any tool",
                hint="check resource_service, mcp_servers and sandbox_tools",
            )
        return cls(routes, definitions, timeout, max_output_chars)

    async def run(self, calls: Sequence[ToolCallInfo]) -> list[Outcome]:
        """Answer every call, in the order of the calls."""
        answered = await asyncio.gather(
            *(self._run(call) for call in calls), return_exceptions=True
        )
        for outcome in answered:
            # Raised only now, when no call of the turn is still running.
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in answered if isinstance(outcome, Outcome)]

    async def _run(self, call: ToolCallInfo) -> Outcome:
        started = time.perf_counter()
        session, tool = self.routes.get(call.name, (None, None))
        if session is None or tool is None:
            # A name may be as long as a model's answer; comparing it would take minutes.
            if len(call.name) <= _SHOWN_NAME:
                given = call.name
            else:
                given = f"{call.name[:_SHOWN_NAME]}..."
            hint = did_you_mean(
                given, self.routes, also=f"Available tools: {', '.join(self.routes)}."
            )
            said = f"There is no tool named {given!r}. {hint[0].upper()}{hint[1:]}"
            result = ToolResult(said, is_error=True)
        elif set(call.arguments) == {"raw"} and "raw" not in (
            tool.parameters.get("properties") or {}
        ):
            # Arguments that were no JSON object are kept so.
            said = f"The arguments are not a valid JSON object: {truncate(str(call.arguments['raw']), 500)}"
            result = ToolResult(said, is_error=True)
        else:
            result = await session.call(tool.name, call.arguments, self.timeout)
        text = truncate(result.content, self.limit)
        source = session.name if session else ""
        took = round((time.perf_counter() - started) * 1000, 2)
        return Outcome(
            call.id, call.name, source, content=text, is_error=result.is_error, latency_ms=took
        )


def truncate(text: str, limit: int) -> str:
    """Head and tail of a text that is too long, with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    tail = limit // 2
    gone = f"... [truncated {len(text) - limit} chars] ..."
    return f"{text[: limit - tail]}\n\n{gone}\n\n{text[len(text) - tail :]}"


def _free_name(name: str, source: str, taken: Container[str]) -> str:
    """A name the protocol allows; one that is taken gets the name of its source in front."""
    plain = _ALLOWED.sub("_", name)[:_NAME_LIMIT] or "tool"
    if plain in taken:
        plain = _ALLOWED.sub("_", f"{source}_{name}")[:_NAME_LIMIT]
    number = 2
    free = plain
    while free in taken:
        free = f"{plain[: _NAME_LIMIT - 4]}_{number}"
        number += 1
    return free


def _chat_shape(given: Any) -> JsonDict:
    """A tool definition of a dataset, in the chat protocol or in that of the Responses API."""
    function = as_dict(as_dict(given).get("function")) or as_dict(given)
    if isinstance(function.get("name"), str):
        kept = {
            key: function[key]
            for key in ("name", "description", "parameters", "strict")
            if key in function
        }
        return {"type": "function", "function": kept}
    raise SeedError(f"the problem's tools hold something that is no function: {str(given)[:200]}")
