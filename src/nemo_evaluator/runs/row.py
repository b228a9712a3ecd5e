"""A row of ``results.jsonl`` from any writer: every field has its type, or is absent."""

from collections.abc import Mapping
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
    """One sample, scored or failed; ``data`` is the row as it was written."""

    data: Mapping[str, Any] = field(repr=False)

    problem_idx = Field("data.problem_idx", as_total, "The number of the problem in its dataset.")
    repeat = Field("data.repeat", as_total, "The number of the repeat.")
    label = Field(
        "data.label",
        as_text,
        "Why a scored answer is not a proper one: ``budget``, ...; else empty.",
    )
    prompt = Field("data.prompt", as_text, "The prompt that was sent.")
    response = Field("data.model_response", as_text, "The answer.")
    metadata = Field("data.metadata", as_dict, "The dataset's fields of the problem.")
    scoring_details = Field(
        "data.scoring_details",
        as_dict,
        "The details of the scorer; those of others under ``scorer:<name>``.",
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
    problem_hash = Field("data.problem_hash", as_text, "The digest of the problem's content.")
    trajectory = Field("data.trajectory", as_list, "The conversation, where the row has it.")

    def __getitem__(self, name: str) -> Any:
        """Return a field as it was written."""
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field as it was written, or ``default`` if it is missing."""
        return self.data.get(name, default)

    def __repr__(self) -> str:
        """Return the row's sample, status and reward."""
        return f"Row({self.problem_idx}, {self.repeat}, {self.status}, reward={self.reward})"

    @property
    def key(self) -> tuple[int, int]:
        """The problem and repeat of the row."""
        return self.problem_idx, self.repeat

    @property
    def failed(self) -> bool:
        """Whether the row has no verdict."""
        return self.data.get("status", "scored") != "scored" or bool(cause_of(self.data))

    @property
    def status(self) -> str:
        """``scored`` or ``failed``."""
        return "failed" if self.failed else "scored"

    @property
    def reward(self) -> float | None:
        """The reward; None for a failed row."""
        if self.failed:
            return None
        return as_number(self.data.get("reward"))

    @property
    def cause(self) -> str:
        """The cause of the failure; empty for a scored row."""
        if self.failed:
            return cause_of(self.data) or "unknown"
        return ""

    @property
    def error(self) -> str:
        """The error message of the failure."""
        return str(as_dict(self.data.get("failure")).get("message") or "")

    @property
    def expected(self) -> Any:
        """The expected answer."""
        return self.data.get("expected_answer")

    @property
    def extracted(self) -> Any:
        """The answer that the scorer extracted; None if it found none."""
        return self.data.get("extracted_answer")

    @property
    def category(self) -> str | None:
        """The category of the problem, if it has one."""
        return category_of(self.data)

    @property
    def cluster(self) -> str:
        """What the problem shares with others; empty for a problem of its own."""
        return str(self.data.get("cluster") or "")

    @property
    def attempts(self) -> int:
        """How often the sample was attempted."""
        return as_whole(self.data.get("attempts")) or 1

    @property
    def steps(self) -> list[JsonDict]:
        """The steps of the conversation; steps of an unknown form are skipped."""
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
        """Whether no answer could be extracted from the response."""
        return bool(self.data.get("unparsed") or self.scoring_details.get("unparsed"))

    @property
    def refused(self) -> bool:
        """Whether the answer looks like a refusal."""
        return is_refusal(self.response, self.finish_reason)

    @property
    def right(self) -> bool:
        """Whether the row has the full reward."""
        return (self.reward or 0.0) >= 1


def shown(value: Any) -> str:
    """Return a row's value as text, whatever its nesting; empty for None."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return dumps(value).decode("utf-8", "replace")
    return str(value)


def category_of(row: Mapping[str, Any]) -> str | None:
    """Return the category in a row's metadata or scoring details, or None."""
    for field_name in ("metadata", "scoring_details"):
        details = row.get(field_name)
        if type(details) is dict and details.get("category") is not None:
            return str(details["category"])
    return None


def cause_of(row: Mapping[str, Any]) -> str:
    """Return the cause of a row's failure as far as the row names it; empty if it did not fail."""
    failure = row.get("failure")
    if failure:
        if type(failure) is dict:
            return str(failure.get("cause", "unknown"))
        return "unknown"
    if "status" in row:
        return ""
    # Older rows have no `status`: they record a failed sample as a zero, with the cause in the details.
    details = row.get("scoring_details")
    if type(details) is dict and details.get("error_category") == "infra_error":
        return "transport"
    return ""
