"""A row of ``results.jsonl``, whoever wrote it: every field has its type, or is absent."""

from typing import Any

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import (
    Field,
    as_dict,
    as_list,
    as_number,
    as_text,
    as_total,
    as_whole,
)
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.store.view_rows import TRUNCATED, is_refusal


@dataclass(frozen=True, slots=True)
class Row:
    """One step, scored or failed. ``data`` is the row as it was written."""

    data: JsonDict = field(repr=False)

    problem_idx = Field("data.problem_idx", as_total, "The number of the problem in its dataset.")
    repeat = Field("data.repeat", as_total, "Which of the repeats.")
    label = Field(
        "data.label",
        as_text,
        "Why a scored answer is not a proper one: ``budget``, ...; else empty.",
    )
    prompt = Field("data.prompt", as_text, "What was asked.")
    response = Field("data.model_response", as_text, "What was answered.")
    metadata = Field("data.metadata", as_dict, "What the dataset says of the problem.")
    scoring_details = Field(
        "data.scoring_details", as_dict, "What the scorer says; others under ``scorer:<name>``."
    )
    scorer_rewards = Field(
        "data.scorer_rewards", as_dict, "The rewards of further scorers, by name."
    )
    finish_reason = Field("data.finish_reason", as_text, "Why the model stopped.")
    tokens = Field("data.tokens", as_whole, "Tokens of the whole exchange.")
    prompt_tokens = Field("data.prompt_tokens", as_whole, "Tokens of the prompt.")
    completion_tokens = Field("data.completion_tokens", as_whole, "Tokens of the answer.")
    latency_ms = Field("data.latency_ms", as_number, "How long the answer took.")
    cost_usd = Field("data.cost_usd", as_number, "What the answer cost, where a price is known.")
    problem_hash = Field("data.problem_hash", as_text, "The digest of what was asked.")
    trajectory = Field("data.trajectory", as_list, "The conversation, where the row has it.")

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field as it was written."""
        return self.data.get(name, default)

    def __repr__(self) -> str:
        return f"Row({self.problem_idx}, {self.repeat}, {self.status}, reward={self.reward})"

    @property
    def key(self) -> tuple[int, int]:
        """What names the row in its benchmark."""
        return self.problem_idx, self.repeat

    @property
    def failed(self) -> bool:
        """Whether there is no verdict on it."""
        return self.data.get("status", "scored") != "scored" or bool(cause_of(self.data))

    @property
    def status(self) -> str:
        """``scored`` or ``failed``."""
        return "failed" if self.failed else "scored"

    @property
    def reward(self) -> float | None:
        """The reward; None on a failed row."""
        if self.failed:
            return None
        return as_number(self.data.get("reward"))

    @property
    def cause(self) -> str:
        """Why it failed; empty when it did not."""
        if self.failed:
            return cause_of(self.data) or "unknown"
        return ""

    @property
    def error(self) -> str:
        """What was said about the failure."""
        return str(as_dict(self.data.get("failure")).get("message") or "")

    @property
    def expected(self) -> Any:
        """The expected answer."""
        return self.data.get("expected_answer")

    @property
    def extracted(self) -> Any:
        """What the scorer took from the answer; None when it found nothing."""
        return self.data.get("extracted_answer")

    @property
    def category(self) -> str | None:
        """The category of the problem, where it has one."""
        return category_of(self.data)

    @property
    def attempts(self) -> int:
        """How often the step was tried."""
        return as_whole(self.data.get("attempts")) or 1

    @property
    def steps(self) -> list[JsonDict]:
        """The steps of the conversation; what another writer left there in another shape is passed over."""
        if self.trajectory:
            steps = as_list(as_dict(self.trajectory[0]).get("steps"))
        else:
            steps = []
        return [step for step in steps if isinstance(step, dict)]

    @property
    def truncated(self) -> bool:
        """Whether the answer was cut off."""
        return self.finish_reason in TRUNCATED

    @property
    def unparsed(self) -> bool:
        """Whether nothing could be read in the answer."""
        return bool(self.data.get("unparsed") or self.scoring_details.get("unparsed"))

    @property
    def refused(self) -> bool:
        """Whether the answer looks like a refusal."""
        return is_refusal(self.response, self.finish_reason)

    @property
    def right(self) -> bool:
        """Whether it has the full reward."""
        return (self.reward or 0.0) >= 1


def shown(value: Any) -> str:
    """A value of a row as text, however deep it is nested; empty where there is none."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return dumps(value).decode("utf-8", "replace")
    return str(value)


def category_of(row: JsonDict) -> str | None:
    """The category a row names, in either of its two places."""
    for part in ("metadata", "scoring_details"):
        found = row.get(part)
        if type(found) is dict and found.get("category") is not None:
            return str(found["category"])
    return None


def cause_of(row: JsonDict) -> str:
    """Why a row failed, as far as it says so; empty for one that did not fail."""
    failure = row.get("failure")
    if failure:
        if type(failure) is dict:
            return str(failure.get("cause", "unknown"))
        return "unknown"
    if "status" in row:
        return ""
    # Rows from before `status` wrote a failed step as a zero and said so in the details.
    details = row.get("scoring_details")
    if type(details) is dict and details.get("error_category") == "infra_error":
        return "transport"
    return ""
