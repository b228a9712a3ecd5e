"""A trajectory as types: what happened between question and answer, as an ATIF document.

The types cost nothing at run time: import them under ``TYPE_CHECKING``. Documents of outside agents can have further
fields.
"""

from typing import Any, NotRequired, TypeAlias, TypedDict


class AgentPart(TypedDict):
    """The agent of a trajectory."""

    name: str
    version: str
    model_name: NotRequired[str]
    tool_definitions: NotRequired[list[dict[str, Any]]]


class ToolCallPart(TypedDict):
    """A tool call that the model requested."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]


class ObservationResult(TypedDict):
    """The result of one tool call, as the model sees it."""

    source_call_id: str
    content: str


class Observation(TypedDict):
    """The results of the tool calls of a step."""

    results: list[ObservationResult]


class StepMetrics(TypedDict, total=False):
    """The tokens and the cost of a step; ``extra`` has its latency and finish reason."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cost_usd: float
    extra: dict[str, Any]


class FinalMetrics(TypedDict):
    """The sums over all steps."""

    total_steps: int
    total_prompt_tokens: NotRequired[int]
    total_completion_tokens: NotRequired[int]
    total_cached_tokens: NotRequired[int]
    total_cost_usd: NotRequired[float]


#: A text, or text and image parts.
StepContent: TypeAlias = str | list[dict[str, Any]]


class TrajectoryStep(TypedDict):
    """A message, or one turn of the model with its tool calls and their results."""

    step_id: int
    source: str
    message: StepContent
    model_name: NotRequired[str]
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[ToolCallPart]]
    observation: NotRequired[Observation]
    metrics: NotRequired[StepMetrics]
    extra: NotRequired[dict[str, Any]]


class TrajectoryDocument(TypedDict, total=False):
    """The whole trajectory; ours has all fields but ``extra``, that of an outside agent can lack some."""

    schema_version: str
    session_id: str
    agent: AgentPart
    steps: list[TrajectoryStep]
    final_metrics: FinalMetrics
    extra: dict[str, Any]
