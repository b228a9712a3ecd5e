"""The records of a journal as types: an answer, an outcome, a turn of an agent, the start of a session.

The types cost nothing at run time: import them under ``TYPE_CHECKING``. A record that was read from a file of an
earlier version can lack fields that are required here only of new records.
"""

from typing import Literal, NotRequired, TypeAlias, TypedDict

from nemo_evaluator.core.trajectory_document import TrajectoryDocument
from nemo_evaluator.core.types import JsonDict, Message


class FailureFields(TypedDict):
    """Why a sample has no verdict."""

    cause: str
    message: str


class FingerprintParts(TypedDict, total=False):
    """The digest of each part of a run's settings; older runs lack some of them."""

    service: str
    solver: str
    scorer: str
    template: str


class MeasuredBy(TypedDict):
    """The digests that a measurement of a run depends on, and the number of rows that were scored."""

    scorer: str | None
    service: str | None
    solver: str | None
    template: str | None
    scored: NotRequired[int | None]


class CanaryFields(TypedDict, total=False):
    """How a judge graded a right and a wrong answer and what that cost, or why it was not asked."""

    right: float
    wrong: float
    judge_tokens: int
    judge_cost_usd: float
    skipped: str


#: The check of a judge, or of each judge of an ensemble.
JudgeCheck: TypeAlias = CanaryFields | dict[str, CanaryFields]


class Timing(TypedDict, total=False):
    """How long each part of a step took, in milliseconds."""

    seed_ms: float
    model_ms: float
    verify_ms: float
    total_ms: float


class QuestionFields(TypedDict, total=False):
    """The question of a sample, in the record of its answer or of an outcome without an answer."""

    at: float
    problem_hash: str
    messages: list[Message]
    prompt: str
    expected_answer: str
    metadata: JsonDict


class ReplyFields(TypedDict, total=False):
    """The model's reply; values that follow from others are left out."""

    response: str
    content: str
    model: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None
    latency_ms: float
    total_tokens: int | None
    attempts: int
    reasoning_tokens: int
    cached_tokens: int
    reasoning_content: str
    time_to_first_token_ms: float
    queue_ms: float
    cost_usd: float
    from_cache: bool


class AnswerFields(QuestionFields, ReplyFields, total=False):
    """What the record of an answer can have besides its sample."""

    trajectory: list[TrajectoryDocument]
    solver_reward: float
    solve_details: JsonDict
    error: str
    label: str
    sandbox_used: bool
    adopted: bool
    crc: str


class AnswerRecord(AnswerFields):
    """A question and its answer."""

    kind: Literal["answer"]
    problem_idx: int
    repeat: int
    fp: str


class OutcomeFields(QuestionFields, total=False):
    """What the record of an outcome can have besides its sample and its status."""

    reward: float
    scoring_details: JsonDict
    extracted_answer: str | None
    scoring_metadata: JsonDict
    label: str
    failure: FailureFields
    attempts: int
    cluster: str
    timing: Timing
    of: str
    crc: str


class OutcomeRecord(OutcomeFields):
    """The verdict on an answer, or the failure of its sample."""

    kind: Literal["outcome"]
    problem_idx: int
    repeat: int
    fp: str
    status: Literal["scored", "failed"]


class TurnRecord(TypedDict):
    """One turn of an agent, written while the agent runs."""

    kind: Literal["turn"]
    problem_idx: int
    repeat: int
    turn: JsonDict


class SessionRecord(TypedDict):
    """The start of a session."""

    kind: Literal["run"]
    at: float
    fingerprints: FingerprintParts
    canaries: NotRequired[dict[str, JudgeCheck]]
    fresh: NotRequired[bool]
    looked_at: NotRequired[int]


#: What a step writes.
StepRecord: TypeAlias = AnswerRecord | OutcomeRecord | TurnRecord
