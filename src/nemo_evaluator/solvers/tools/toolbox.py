"""The tools of one problem from all sources: unique names, calls routed by name, output cut to size."""

import asyncio
import re
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, ToolCallInfo
from nemo_evaluator.solvers.tools.base import Tool, ToolResult, ToolSession

_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")
_NAME_LIMIT: Final = 64
_SHOWN_NAME: Final = 100
_FUNCTION_FIELDS: Final = ("name", "description", "parameters", "strict")
# The session and the tool behind a name.
Route: TypeAlias = tuple[ToolSession, Tool]


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

    routes: dict[str, Route]
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
        routes: dict[str, Route] = {}
        for session in sessions:
            for tool in await session.tools():
                routes[_free_name(tool.name, session.name, routes)] = session, tool
        if wanted:
            definitions = [_chat_shape(definition) for definition in wanted]
            routes = _selected(routes, definitions)
        else:
            definitions = [tool.definition(name) for name, (_, tool) in routes.items()]
        if not routes:
            raise SeedError(
                "no source offers any tool",
                hint="check resource_service, mcp_servers and sandbox_tools",
            )
        return cls(routes, definitions, timeout, limit=max_output_chars)

    async def run(self, calls: Sequence[ToolCallInfo]) -> list[Outcome]:
        """Run the calls of one turn concurrently.

        Args:
            calls: The calls.

        Returns:
            The outcomes, in the order of the calls.

        Raises:
            BoundaryError: A source failed; it is raised when all calls have ended.
        """
        pending = [self._run(call) for call in calls]
        outcomes: list[Outcome] = []
        for outcome in await asyncio.gather(*pending, return_exceptions=True):
            # Raised only now, when no call of the turn is still running.
            if isinstance(outcome, BaseException):
                raise outcome
            outcomes.append(outcome)
        return outcomes

    async def _run(self, call: ToolCallInfo) -> Outcome:
        """Run one call; an unknown tool and invalid arguments are results that the model sees."""
        started = time.perf_counter()
        source = ""
        if call.name not in self.routes:
            result = self._no_such_tool(call.name)
        else:
            session, tool = self.routes[call.name]
            source = session.name
            if _has_invalid_arguments(call, tool):
                raw_text = truncate(str(call.arguments["raw"]), 500)
                result = ToolResult(
                    f"The arguments are not a valid JSON object: {raw_text}", is_error=True
                )
            else:
                result = await session.call(tool.name, call.arguments, self.timeout)
        elapsed_ms = round((time.perf_counter() - started) * 1000, 2)
        return Outcome(
            id=call.id,
            name=call.name,
            source=source,
            content=truncate(result.content, self.limit),
            is_error=result.is_error,
            latency_ms=elapsed_ms,
        )

    def _no_such_tool(self, name: str) -> ToolResult:
        # A name may be as long as a model's answer; searching for similar names would take minutes.
        shown_name = name
        if len(name) > _SHOWN_NAME:
            shown_name = f"{name[:_SHOWN_NAME]}..."
        available = f"Available tools: {', '.join(self.routes)}."
        hint = did_you_mean(shown_name, self.routes, also=available)
        problem = f"There is no tool named {shown_name!r}. {hint[0].upper()}{hint[1:]}"
        return ToolResult(problem, is_error=True)


def _selected(routes: dict[str, Route], definitions: Sequence[JsonDict]) -> dict[str, Route]:
    """Return the routes of the tools that the definitions name; raise SeedError when one is missing."""
    names = [definition["function"]["name"] for definition in definitions]
    missing = [name for name in names if name not in routes]
    if missing:
        raise SeedError(
            f"the problem wants tools that no source offers: {', '.join(missing)} "
            f"(offered: {', '.join(routes) or 'none'})"
        )
    return {name: routes[name] for name in names}


def _has_invalid_arguments(call: ToolCallInfo, tool: Tool) -> bool:
    """Return whether the arguments were not a JSON object: the client then stores their text as ``raw``."""
    if set(call.arguments) != {"raw"}:
        return False
    properties = tool.parameters.get("properties") or {}
    return "raw" not in properties


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


def _chat_shape(definition: Any) -> JsonDict:
    """Convert a dataset's tool definition, in the chat protocol or the Responses API, to the chat protocol."""
    function = as_dict(as_dict(definition).get("function")) or as_dict(definition)
    if not isinstance(function.get("name"), str):
        raise SeedError(
            f"the problem's tools hold something that is not a function: {str(definition)[:200]}"
        )
    chat_fields = {key: function[key] for key in _FUNCTION_FIELDS if key in function}
    return {"type": "function", "function": chat_fields}
