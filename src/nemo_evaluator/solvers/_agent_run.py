"""One problem in the tool loop: the conversation, its record, and the final result."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Final

from nemo_evaluator.core.errors import BudgetError, ContextExceededError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.turns import record_turn
from nemo_evaluator.core.types import (
    ErrorKind,
    JsonDict,
    Message,
    ModelResponse,
    SolveResult,
    ToolCallInfo,
)
from nemo_evaluator.models import Client
from nemo_evaluator.models.usage import together
from nemo_evaluator.solvers.tools.toolbox import Toolbox
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

_SMALLEST_CONTEXT: Final = 1_000
_CHARS_PER_TOKEN: Final = 4
_SHORT: Final = 200
_COUNTS: Final = ("finish_reason", "prompt_tokens", "completion_tokens", "latency_ms")


def size_of(messages: Sequence[Message]) -> int:
    """Estimate the length of a conversation in tokens.

    Args:
        messages: The conversation in the chat protocol.

    Returns:
        The number of JSON characters divided by four, rounded down.
    """
    return sum(len(dumps(message)) for message in messages) // _CHARS_PER_TOKEN


def fit(messages: list[Message], budget: int) -> list[Message]:
    """Shorten a conversation to about ``budget`` tokens.

    Old tool output is blanked first, then whole old turns are dropped. A turn is an assistant message with the results
    of its calls; it stays or goes as one. The messages before the first turn (system prompt, question) and the last
    turn always stay, so the result can still be over the budget.

    Args:
        messages: The conversation; neither the list nor its messages are changed.
        budget: The maximum length, as ``size_of`` counts it.

    Returns:
        The same list when it already fits, otherwise a new, shorter one.
    """
    if size_of(messages) <= budget:
        return messages
    # The messages before the first assistant message, then one list per turn.
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message.get("role") == "assistant":
            turns.append([])
        turns[-1].append(message)
    for turn_index in range(1, len(turns) - 1):
        turns[turn_index] = [_emptied(message) for message in turns[turn_index]]
        if size_of(shortened := list(chain(*turns))) <= budget:
            return shortened
    turns_dropped = 0
    while len(turns) > 2 and size_of(list(chain(*turns))) > budget:
        del turns[1]
        turns_dropped += 1
    return [*_noted(turns[0], turns_dropped), *chain(*turns[1:])]


def _emptied(message: Message) -> Message:
    """Replace the content of a long tool result with a note on its length; return other messages as they are."""
    content = message.get("content")
    if message.get("role") != "tool" or not isinstance(content, str) or len(content) <= _SHORT:
        return message
    return {
        **message,
        "content": f"[{len(content)} characters of output left out to fit the context]",
    }


def _noted(lead: list[Message], gone: int) -> list[Message]:
    """Add a note on the dropped turns to the last user message of the lead.

    A message of its own would break templates that require roles to alternate.
    """
    note = f"[{gone} earlier turns left out to fit the context]"
    index = next(
        (index for index in reversed(range(len(lead))) if lead[index].get("role") == "user"), None
    )
    if index is None or gone == 0:
        return lead
    content: Any = lead[index].get("content")
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": note}]
    else:
        content = f"{content}\n\n{note}"
    return [*lead[:index], {**lead[index], "content": content}, *lead[index + 1 :]]


@dataclass(slots=True)
class AgentRun:
    """The state of one problem in the tool loop.

    Attributes:
        client: The client of the model.
        toolbox: The tools that the model may call.
        messages: The conversation so far; grows with every turn.
        generation: Generation settings that override the service's, or None.
        context_tokens: The longest conversation to send, in estimated tokens; reduced when the model rejects it.
        replies: The model's replies, one per turn.
        asked: The messages that the conversation started with.
        document: The builder of the trajectory.
    """

    client: Client
    toolbox: Toolbox
    messages: list[Message]
    generation: JsonDict | None
    context_tokens: int
    replies: list[ModelResponse] = field(default_factory=list)
    asked: list[Message] = field(init=False)
    document: TrajectoryBuilder = field(init=False)
    _ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Copy the initial messages and start the trajectory with them."""
        self.asked = list(self.messages)
        self.document = TrajectoryBuilder(
            agent="nemo-evaluator-tool-calling", tools=self.toolbox.definitions, asked=self.asked
        )

    async def loop(self, max_turns: int) -> str | None:
        """Alternate model calls and tool calls until the model answers without calling a tool.

        Args:
            max_turns: The maximum number of model calls.

        Returns:
            Why the loop was cut short, or None when the model finished by itself.

        Raises:
            BoundaryError: The model, a tool source or the sandbox failed. A context or budget that is exceeded is
                raised only before the first reply; afterwards it cuts the loop short.
        """
        for turn in range(1, max_turns + 1):
            try:
                reply = await self._ask()
            except (ContextExceededError, BudgetError) as error:
                if not self.replies:
                    raise
                return f"{error.cause} ({error.message})"
            calls = self._with_ids(reply.tool_calls, turn)
            self.replies.append(reply)
            self.document.agent(reply, calls)
            call_records = [
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls
            ]
            reply_record = {
                "content": reply.content,
                "reasoning_content": reply.reasoning_content,
                "tool_calls": call_records,
            }
            counts = {field_name: getattr(reply, field_name) for field_name in _COUNTS}
            record_turn({"turn": turn, "event": "model", **reply_record, **counts})
            if not calls:
                return None
            self.messages.append(_assistant(reply, calls))
            outcomes = await self.toolbox.run(calls)
            record_turn(
                {
                    "turn": turn,
                    "event": "tools",
                    "results": [asdict(outcome) for outcome in outcomes],
                }
            )
            for tool_outcome in outcomes:
                self.messages.append(
                    {
                        "role": "tool",
                        "tool_call_id": tool_outcome.id,
                        "content": tool_outcome.content,
                    }
                )
                outcome_facts: JsonDict = {
                    "latency_ms": tool_outcome.latency_ms,
                    "is_error": tool_outcome.is_error,
                }
                self.document.observe(
                    tool_outcome.id,
                    tool_outcome.content,
                    source=tool_outcome.source,
                    **outcome_facts,
                )
        return f"max_turns_exhausted ({max_turns} turns)"

    async def _ask(self) -> ModelResponse:
        """Send as much of the conversation as fits.

        Whenever the model rejects it as too long, the context limit shrinks by a quarter, also for later turns.
        """
        while True:
            messages = fit(self.messages, self.context_tokens)
            try:
                return await self.client.chat(
                    messages, tools=self.toolbox.definitions, generation=self.generation
                )
            except ContextExceededError:
                self.context_tokens = min(self.context_tokens, size_of(messages)) * 3 // 4
                if (
                    self.context_tokens < _SMALLEST_CONTEXT
                    or fit(self.messages, self.context_tokens) == messages
                ):
                    raise

    def _with_ids(self, calls: Sequence[ToolCallInfo], turn: int) -> list[ToolCallInfo]:
        """Give every call a unique id: some servers send none, or number each turn from zero."""
        identified_calls = []
        for call_index, call in enumerate(calls):
            call_id = call.id
            if not call_id or call_id in self._ids:
                call_id = f"{call.id or 'call'}_{turn}_{call_index}"
            self._ids.add(call_id)
            identified_calls.append(ToolCallInfo(call_id, call.name or "(unnamed)", call.arguments))
        return identified_calls

    def result(self, error: str | None, *, artifact: bool) -> SolveResult:
        """Build the result of the problem from the replies so far.

        Args:
            error: Why the loop was cut short, or None when it was not.
            artifact: Whether the state of the sandbox is the answer; the response text is then empty.

        Returns:
            The last non-empty reply as the response, the combined usage of all replies, and the trajectory.
        """
        last_text = next((reply.content for reply in reversed(self.replies) if reply.content), "")
        trajectory = self.document.finish(
            status="error" if error else "completed", error=error, turns=len(self.replies)
        )
        combined_reply = together(self.replies)
        combined_reply.content, combined_reply.request_body = last_text, {"messages": self.asked}
        combined_reply.raw_response = {}
        combined_reply.reasoning_content = None
        combined_reply.tool_calls = []
        combined_reply.from_cache = False
        combined_reply.attempts = max(reply.attempts for reply in self.replies)
        combined_reply.time_to_first_token_ms = self.replies[0].time_to_first_token_ms
        return SolveResult(
            response="" if artifact else last_text,
            model_response=combined_reply,
            trajectory=trajectory,
            error=error,
            error_kind=ErrorKind.GRACEFUL if error else ErrorKind.NONE,
        )


def _assistant(reply: ModelResponse, calls: Sequence[ToolCallInfo]) -> Message:
    """Build the assistant message that repeats a reply and its calls to the model."""
    # Arguments go back as valid JSON even where the model's were not: servers parse them before the model sees them.
    functions = [{"name": call.name, "arguments": dumps(call.arguments).decode()} for call in calls]
    pairs = zip(calls, functions, strict=True)
    tool_calls = [
        {"id": call.id, "type": "function", "function": function} for call, function in pairs
    ]
    return {
        "role": "assistant",
        "tool_calls": tool_calls,
        **({"content": reply.content} if reply.content else {}),
    }
