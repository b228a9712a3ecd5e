"""One problem under way in the tool loop: the conversation, the record of it, and what comes out."""

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
    """The length of a conversation, in tokens by rule of thumb."""
    return sum(len(dumps(message)) for message in messages) // _CHARS_PER_TOKEN


def fit(messages: list[Message], budget: int) -> list[Message]:
    """The conversation within ``budget`` tokens: first old tool output goes, then whole old turns.

    A turn is an assistant message with the results of its calls; it stays or goes as one. What stands before the first
    turn (system prompt, question) and the last turn always stay. The messages given are not changed.
    """
    if size_of(messages) <= budget:
        return messages
    # What stands before the first assistant message, and the turns after it.
    parts: list[list[Message]] = [[]]
    for message in messages:
        if message.get("role") == "assistant":
            parts.append([])
        parts[-1].append(message)
    for at in range(1, len(parts) - 1):
        parts[at] = [_emptied(message) for message in parts[at]]
        if size_of(emptied := list(chain(*parts))) <= budget:
            return emptied
    gone = 0
    while len(parts) > 2 and size_of(list(chain(*parts))) > budget:
        del parts[1]
        gone += 1
    return [*_noted(parts[0], gone), *chain(*parts[1:])]


def _emptied(message: Message) -> Message:
    content = message.get("content")
    if message.get("role") != "tool" or not isinstance(content, str) or len(content) <= _SHORT:
        return message
    return {
        **message,
        "content": f"[{len(content)} characters of output left out to fit the context]",
    }


def _noted(lead: list[Message], gone: int) -> list[Message]:
    """The question with a note. A message of its own would break templates that want roles to alternate."""
    note = f"[{gone} earlier turns left out to fit the context]"
    at = next((at for at in reversed(range(len(lead))) if lead[at].get("role") == "user"), None)
    if at is None or gone == 0:
        return lead
    content: Any = lead[at].get("content")
    if isinstance(content, list):
        content = [*content, {"type": "text", "text": note}]
    else:
        content = f"{content}\n\n{note}"
    return [*lead[:at], {**lead[at], "content": content}, *lead[at + 1 :]]


@dataclass(slots=True)
class AgentRun:
    """One problem under way."""

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
        self.asked = list(self.messages)
        self.document = TrajectoryBuilder(
            agent="nemo-evaluator-tool-calling", tools=self.toolbox.definitions, asked=self.asked
        )

    async def loop(self, max_turns: int) -> str | None:
        """Turn after turn; returns why it was cut short, or None when the model was done."""
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
            called = [
                {"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls
            ]
            said = {
                "content": reply.content,
                "reasoning_content": reply.reasoning_content,
                "tool_calls": called,
            }
            counts = {name: getattr(reply, name) for name in _COUNTS}
            record_turn({"turn": turn, "event": "model", **said, **counts})
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
            for done in outcomes:
                self.messages.append(
                    {"role": "tool", "tool_call_id": done.id, "content": done.content}
                )
                ended: JsonDict = {"latency_ms": done.latency_ms, "is_error": done.is_error}
                self.document.observe(done.id, done.content, source=done.source, **ended)
        return f"max_turns_exhausted ({max_turns} turns)"

    async def _ask(self) -> ModelResponse:
        """Ask with what fits. A model whose context is smaller than we thought is asked with less, from now on."""
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
        """The calls under ids that are there and used once: some servers number each turn from zero."""
        fresh = []
        for at, call in enumerate(calls):
            identity = call.id
            if not identity or identity in self._ids:
                identity = f"{call.id or 'call'}_{turn}_{at}"
            self._ids.add(identity)
            fresh.append(ToolCallInfo(identity, call.name or "(unnamed)", call.arguments))
        return fresh

    def result(self, error: str | None, *, artifact: bool) -> SolveResult:
        """What the problem is answered with."""
        text = next((reply.content for reply in reversed(self.replies) if reply.content), "")
        document = self.document.finish(
            status="error" if error else "completed", error=error, turns=len(self.replies)
        )
        whole = together(self.replies)
        whole.content, whole.request_body = text, {"messages": self.asked}
        whole.raw_response = {}
        whole.reasoning_content = None
        whole.tool_calls = []
        whole.from_cache = False
        whole.attempts = max(reply.attempts for reply in self.replies)
        whole.time_to_first_token_ms = self.replies[0].time_to_first_token_ms
        return SolveResult(
            response="" if artifact else text,
            model_response=whole,
            trajectory=document,
            error=error,
            error_kind=ErrorKind.GRACEFUL if error else ErrorKind.NONE,
        )


def _assistant(reply: ModelResponse, calls: Sequence[ToolCallInfo]) -> Message:
    # Arguments go back as valid JSON even where the model's were not: servers parse them before the model sees them.
    functions = [{"name": call.name, "arguments": dumps(call.arguments).decode()} for call in calls]
    pairs = zip(calls, functions, strict=True)
    shown = [{"id": call.id, "type": "function", "function": function} for call, function in pairs]
    return {
        "role": "assistant",
        "tool_calls": shown,
        **({"content": reply.content} if reply.content else {}),
    }
