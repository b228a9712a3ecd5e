"""The rows of ``results.jsonl`` and ``trajectories.jsonl`` as types, as this version writes them.

The types cost nothing at run time: import them under ``TYPE_CHECKING``. Rows that were read from a file can come from
any writer; ``runs.row.Row`` reads those.
"""

from typing import Literal, NotRequired, TypedDict

from nemo_evaluator.core.trajectory_document import TrajectoryDocument
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.store.journal_record import FailureFields, Timing


class ResultRow(TypedDict):
    """A row of ``results.jsonl``."""

    problem_idx: int
    repeat: int
    status: Literal["scored", "failed"]
    reward: float | None
    scorer_rewards: dict[str, float | None]
    prompt: str
    model_response: str
    extracted_answer: object
    expected_answer: str
    scoring_details: JsonDict
    metadata: JsonDict
    tokens: int
    prompt_tokens: int | None
    completion_tokens: int | None
    finish_reason: str
    latency_ms: float
    queue_ms: float
    failure: FailureFields | None
    attempts: int
    problem_hash: str
    cluster: NotRequired[str]
    unparsed: NotRequired[bool]
    label: NotRequired[str]
    cost_usd: NotRequired[float]
    trajectory: NotRequired[list[TrajectoryDocument]]


class ReplyTokens(TypedDict):
    """The tokens of a reply, in a row of ``trajectories.jsonl``."""

    prompt: int | None
    completion: int | None
    total: int
    reasoning: int | None


class ReplyPart(TypedDict):
    """The model's reply, in a row of ``trajectories.jsonl``."""

    content: str
    model: str
    finish_reason: str
    tokens: ReplyTokens
    latency_ms: float | None


class TrajectoryRow(TypedDict):
    """A row of ``trajectories.jsonl``."""

    step_id: str
    problem_idx: int
    repeat: int
    timestamp: float | None
    prompt: str
    expected_answer: str
    status: Literal["scored", "failed"]
    reward: float | None
    extracted_answer: object
    scoring_method: str
    scoring_details: JsonDict
    seed_metadata: JsonDict
    timing: Timing
    failure_category: str | None
    retries: int
    failure: NotRequired[FailureFields]
    model: NotRequired[ReplyPart]
    model_error: NotRequired[str]
    trajectory: NotRequired[list[TrajectoryDocument]]
