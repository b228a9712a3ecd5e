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
from nemo_evaluator.solvers.tools.toolbox import Outcome, Toolbox
from nemo_evaluator.solvers.trajectory import TrajectoryBuilder

_SMALLEST_CONTEXT: Final = 1_000
_CHARS_PER_TOKEN: Final = 4
_SHORT: Final = 200


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
        shortened = list(chain(*turns))
        if size_of(shortened) <= budget:
            return shortened
    turns_dropped = 0
    size = size_of(list(chain(*turns)))
    # The lead and the last turn always stay.
    while len(turns) > 2 and size > budget:
        del turns[1]
        turns_dropped += 1
        size = size_of(list(chain(*turns)))
    lead = _noted(turns[0], turns_dropped)
    return [*lead, *chain(*turns[1:])]


def _emptied(message: Message) -> Message:
    """Replace the content of a long tool result with a note on its length; return other messages as they are."""
    if message.get("role") != "tool":
        return message
    content = message.get("content")
    if not isinstance(content, str) or len(content) <= _SHORT:
        return message
    note = f"[{len(content)} characters of output left out to fit the context]"
    return {**message, "content": note}


def _noted(lead: list[Message], dropped: int) -> list[Message]:
    """Add a note on the dropped turns to the last user message of the lead.

    A message of its own would break templates that require roles to alternate.
    """
    user_indexes = [index for index, item in enumerate(lead) if item.get("role") == "user"]
    if not user_indexes or dropped == 0:
        return lead
    note = f"[{dropped} earlier turns left out to fit the context]"
    user_message = lead[user_indexes[-1]]
    content: Any = user_message.get("content")
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": note}]
    else:
        content = f"{content}\n\n{note}"
    lead_with_note = list(lead)
    lead_with_note[user_indexes[-1]] = {**user_message, "content": content}
    return lead_with_note


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
            record_turn(_model_record(turn, reply, calls))
            if not calls:
                return None
            self.messages.append(_assistant(reply, calls))
            outcomes = await self.toolbox.run(calls)
            results = [asdict(outcome) for outcome in outcomes]
            record_turn({"turn": turn, "event": "tools", "results": results})
            for outcome in outcomes:
                self._add_outcome(outcome)
        return f"max_turns_exhausted ({max_turns} turns)"

    def _add_outcome(self, outcome: Outcome) -> None:
        """Show the outcome of a call to the model, and record it in the trajectory."""
        self.messages.append(
            {"role": "tool", "tool_call_id": outcome.id, "content": outcome.content}
        )
        self.document.observe(
            outcome.id,
            outcome.content,
            source=outcome.source,
            latency_ms=outcome.latency_ms,
            is_error=outcome.is_error,
        )

    async def _ask(self) -> ModelResponse:
        """Send as much of the conversation as fits.

        Whenever the model rejects it as too long, the context limit shrinks by a quarter, also for later turns.
        """
        tools = self.toolbox.definitions
        while True:
            messages = fit(self.messages, self.context_tokens)
            try:
                return await self.client.chat(messages, tools=tools, generation=self.generation)
            except ContextExceededError:
                self.context_tokens = min(self.context_tokens, size_of(messages)) * 3 // 4
                if self.context_tokens < _SMALLEST_CONTEXT:
                    raise
                if fit(self.messages, self.context_tokens) == messages:
                    # Nothing more can be left out.
                    raise

    def _with_ids(self, calls: Sequence[ToolCallInfo], turn: int) -> list[ToolCallInfo]:
        """Give every call a unique id: some servers send none, or number each turn from zero."""
        identified_calls = []
        for call_index, call in enumerate(calls):
            call_id = call.id
            if not call_id or call_id in self._ids:
                call_id = f"{call.id or 'call'}_{turn}_{call_index}"
            self._ids.add(call_id)
            name = call.name or "(unnamed)"
            identified_calls.append(ToolCallInfo(call_id, name, call.arguments))
        return identified_calls

    def result(self, error: str | None, *, artifact: bool) -> SolveResult:
        """Build the result of the problem from the replies so far.

        Args:
            error: Why the loop was cut short, or None when it was not.
            artifact: Whether the state of the sandbox is the answer; the response text is then empty.

        Returns:
            The last non-empty reply as the response, the combined usage of all replies, and the trajectory.
        """
        status = "completed"
        error_kind = ErrorKind.NONE
        if error:
            status = "error"
            error_kind = ErrorKind.GRACEFUL
        last_text = self._last_text()
        return SolveResult(
            response="" if artifact else last_text,
            model_response=self._combined_reply(last_text),
            trajectory=self.document.finish(status=status, error=error, turns=len(self.replies)),
            error=error,
            error_kind=error_kind,
        )

    def _last_text(self) -> str:
        """Return the text of the last reply that is not empty."""
        for reply in reversed(self.replies):
            if reply.content:
                return reply.content
        return ""

    def _combined_reply(self, text: str) -> ModelResponse:
        """Combine the usage of all replies in one that has this text as its content."""
        combined_reply = together(self.replies)
        combined_reply.content = text
        combined_reply.request_body = {"messages": self.asked}
        combined_reply.raw_response = {}
        combined_reply.reasoning_content = None
        combined_reply.tool_calls = []
        combined_reply.from_cache = False
        combined_reply.attempts = max(reply.attempts for reply in self.replies)
        combined_reply.time_to_first_token_ms = self.replies[0].time_to_first_token_ms
        return combined_reply


def _model_record(turn: int, reply: ModelResponse, calls: Sequence[ToolCallInfo]) -> JsonDict:
    """Describe one reply of the model for the run's record of turns."""
    return {
        "turn": turn,
        "event": "model",
        "content": reply.content,
        "reasoning_content": reply.reasoning_content,
        "tool_calls": [asdict(call) for call in calls],
        "finish_reason": reply.finish_reason,
        "prompt_tokens": reply.prompt_tokens,
        "completion_tokens": reply.completion_tokens,
        "latency_ms": reply.latency_ms,
    }


def _assistant(reply: ModelResponse, calls: Sequence[ToolCallInfo]) -> Message:
    """Build the assistant message that repeats a reply and its calls to the model."""
    tool_calls: list[JsonDict] = []
    for call in calls:
        # Valid JSON even where the model's arguments were not: servers parse them before the model sees them.
        function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
        tool_calls.append({"id": call.id, "type": "function", "function": function})
    message: Message = {"role": "assistant", "tool_calls": tool_calls}
    if reply.content:
        message["content"] = reply.content
    return message
