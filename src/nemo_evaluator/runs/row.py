"""A row of ``results.jsonl``, whoever wrote it: every field has its type, or is absent."""

from typing import Any

from nemo_evaluator.core.json_coerce import as_dict, as_list, as_number, as_whole
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.store.view_rows import TRUNCATED, is_refusal


@dataclass(frozen=True, slots=True)
class Row:
    """One step, scored or failed. ``data`` is the row as it was written."""

    data: JsonDict = field(repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.data[name]

    def get(self, name: str, default: Any = None) -> Any:
        """A field as it was written."""
        return self.data.get(name, default)

    def __repr__(self) -> str:
        return f"Row({self.problem_idx}, {self.repeat}, {self.status}, reward={self.reward})"

    @property
    def problem_idx(self) -> int:
        """The number of the problem in its dataset."""
        return as_whole(self.data.get("problem_idx")) or 0

    @property
    def repeat(self) -> int:
        """Which of the repeats."""
        return as_whole(self.data.get("repeat")) or 0

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
        return None if self.failed else as_number(self.data.get("reward"))

    @property
    def cause(self) -> str:
        """Why it failed; empty when it did not."""
        return (cause_of(self.data) or "unknown") if self.failed else ""

    @property
    def error(self) -> str:
        """What was said about the failure."""
        return str(as_dict(self.data.get("failure")).get("message") or "")

    @property
    def label(self) -> str:
        """Why an answer that was scored is not a proper one: ``context_exceeded``, ``budget``; else empty."""
        return str(self.data.get("label") or "")

    @property
    def prompt(self) -> str:
        """What was asked."""
        return _text(self.data.get("prompt"))

    @property
    def response(self) -> str:
        """What was answered."""
        return _text(self.data.get("model_response"))

    @property
    def expected(self) -> Any:
        """The expected answer."""
        return self.data.get("expected_answer")

    @property
    def extracted(self) -> Any:
        """What the scorer took from the answer; None when it found nothing."""
        return self.data.get("extracted_answer")

    @property
    def metadata(self) -> JsonDict:
        """What the dataset says of the problem."""
        return as_dict(self.data.get("metadata"))

    @property
    def scoring_details(self) -> JsonDict:
        """What the scorer says of the answer; judges and further metrics under ``scorer:<name>``."""
        return as_dict(self.data.get("scoring_details"))

    @property
    def scorer_rewards(self) -> JsonDict:
        """The rewards of further scorers, by name."""
        return as_dict(self.data.get("scorer_rewards"))

    @property
    def category(self) -> str | None:
        """The category of the problem, where it has one."""
        return category_of(self.data)

    @property
    def finish_reason(self) -> str:
        """Why the model stopped."""
        return _text(self.data.get("finish_reason"))

    @property
    def tokens(self) -> int | None:
        """Tokens of the whole exchange."""
        return as_whole(self.data.get("tokens"))

    @property
    def prompt_tokens(self) -> int | None:
        """Tokens of the prompt."""
        return as_whole(self.data.get("prompt_tokens"))

    @property
    def completion_tokens(self) -> int | None:
        """Tokens of the answer."""
        return as_whole(self.data.get("completion_tokens"))

    @property
    def latency_ms(self) -> float | None:
        """How long the answer took."""
        return as_number(self.data.get("latency_ms"))

    @property
    def cost_usd(self) -> float | None:
        """What the answer cost, where a price is known."""
        return as_number(self.data.get("cost_usd"))

    @property
    def attempts(self) -> int:
        """How often the step was tried."""
        return as_whole(self.data.get("attempts")) or 1

    @property
    def problem_hash(self) -> str:
        """The digest of what was asked."""
        return str(self.data.get("problem_hash") or "")

    @property
    def trajectory(self) -> list[Any]:
        """The conversation, where the row has it."""
        return as_list(self.data.get("trajectory"))

    @property
    def steps(self) -> list[JsonDict]:
        """The steps of the conversation; what another writer left there in another shape is passed over."""
        steps = as_list(as_dict(self.trajectory[0]).get("steps")) if self.trajectory else []
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
        return str(failure.get("cause", "unknown")) if type(failure) is dict else "unknown"
    if "status" in row:
        return ""
    # Rows from before `status` wrote a failed step as a zero and said so in the details.
    details = row.get("scoring_details")
    return "transport" if type(details) is dict and details.get("error_category") == "infra_error" else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
