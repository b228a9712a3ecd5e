"""The tools of one problem from all sources: unique names, calls routed by name, output cut to size."""

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
    """The record of one answered call.

    Attributes:
        id: The id of the call.
        name: The name that the model called.
        source: The source of the tool; empty for an unknown tool.
        content: The text that the model sees.
        is_error: Whether the call failed.
        latency_ms: How long the call took.
    """

    id: str
    name: str
    source: str
    content: str
    is_error: bool
    latency_ms: float


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one problem.

    Calls of one turn run concurrently; a source that needs them in order must ensure that itself.

    Attributes:
        routes: The session and the tool behind each name.
        definitions: The definitions that the model gets.
        timeout: Seconds for one call.
        limit: The longest output shown to the model, in characters.
    """

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
        """Collect the tools of all sessions.

        Args:
            sessions: The opened sources.
            wanted: The problem's own definitions, which select the tools and replace their descriptions; or None for
                all tools.
            timeout: Seconds for one call.
            max_output_chars: The longest output shown to the model.

        Raises:
            SeedError: The problem wants a tool that no source offers, or there is no tool at all.
        """
        routes: dict[str, tuple[ToolSession, Tool]] = {}
        for session in sessions:
            for tool in await session.tools():
                routes[_free_name(tool.name, session.name, routes)] = session, tool
        definitions = [tool.definition(name) for name, (_, tool) in routes.items()]
        if wanted:
            definitions = [_chat_shape(definition) for definition in wanted]
            names = [definition["function"]["name"] for definition in definitions]
            missing = [name for name in names if name not in routes]
            if missing:
                offered_tools = f"(offered: {', '.join(routes) or 'none'})"
                raise SeedError(
                    f"the problem wants tools that no source offers: {', '.join(missing)} {offered_tools}"
                )
            routes = {name: routes[name] for name in names}
        if not routes:
            raise SeedError(
                "no source offers any tool",
                hint="check resource_service, mcp_servers and sandbox_tools",
            )
        return cls(routes, definitions, timeout, max_output_chars)

    async def run(self, calls: Sequence[ToolCallInfo]) -> list[Outcome]:
        """Run the calls of one turn concurrently.

        Args:
            calls: The calls.

        Returns:
            The outcomes, in the order of the calls.

        Raises:
            BoundaryError: A source failed; it is raised when all calls have ended.
        """
        outcomes = await asyncio.gather(
            *(self._run(call) for call in calls), return_exceptions=True
        )
        for outcome in outcomes:
            # Raised only now, when no call of the turn is still running.
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Outcome)]

    async def _run(self, call: ToolCallInfo) -> Outcome:
        """Run one call; an unknown tool and invalid arguments are results that the model sees."""
        started = time.perf_counter()
        session, tool = self.routes.get(call.name, (None, None))
        if session is None or tool is None:
            # A name may be as long as a model's answer; searching for similar names would take minutes.
            if len(call.name) <= _SHOWN_NAME:
                shown_name = call.name
            else:
                shown_name = f"{call.name[:_SHOWN_NAME]}..."
            hint = did_you_mean(
                shown_name, self.routes, also=f"Available tools: {', '.join(self.routes)}."
            )
            problem = f"There is no tool named {shown_name!r}. {hint[0].upper()}{hint[1:]}"
            result = ToolResult(problem, is_error=True)
        elif set(call.arguments) == {"raw"} and "raw" not in (
            tool.parameters.get("properties") or {}
        ):
            # The client stores arguments that were not a JSON object as `raw`.
            problem = f"The arguments are not a valid JSON object: {truncate(str(call.arguments['raw']), 500)}"
            result = ToolResult(problem, is_error=True)
        else:
            result = await session.call(tool.name, call.arguments, self.timeout)
        shown_text = truncate(result.content, self.limit)
        source = session.name if session else ""
        elapsed_ms = round((time.perf_counter() - started) * 1000, 2)
        return Outcome(
            call.id,
            call.name,
            source,
            content=shown_text,
            is_error=result.is_error,
            latency_ms=elapsed_ms,
        )


def truncate(text: str, limit: int) -> str:
    """Shorten a text to its head and tail, with a note of how many characters were left out.

    Args:
        text: The text.
        limit: How many characters to keep; the note is added to them.
    """
    if len(text) <= limit:
        return text
    tail = limit // 2
    note = f"... [truncated {len(text) - limit} chars] ..."
    return f"{text[: limit - tail]}\n\n{note}\n\n{text[len(text) - tail :]}"


def _free_name(name: str, source: str, taken: Container[str]) -> str:
    """Return a valid name that no tool has: prefixed by its source, then numbered, where necessary."""
    valid_name = _ALLOWED.sub("_", name)[:_NAME_LIMIT] or "tool"
    if valid_name in taken:
        valid_name = _ALLOWED.sub("_", f"{source}_{name}")[:_NAME_LIMIT]
    number = 2
    unique_name = valid_name
    while unique_name in taken:
        unique_name = f"{valid_name[: _NAME_LIMIT - 4]}_{number}"
        number += 1
    return unique_name


def _chat_shape(given: Any) -> JsonDict:
    """Convert a dataset's tool definition, in the chat protocol or the Responses API, to the chat protocol."""
    function = as_dict(as_dict(given).get("function")) or as_dict(given)
    if isinstance(function.get("name"), str):
        chat_fields = {
            key: function[key]
            for key in ("name", "description", "parameters", "strict")
            if key in function
        }
        return {"type": "function", "function": chat_fields}
    raise SeedError(f"the problem's tools hold something that is no function: {str(given)[:200]}")
