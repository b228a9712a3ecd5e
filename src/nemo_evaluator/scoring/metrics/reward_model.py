"""``type: reward_model``: a reward model that scores the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config.fields import Above0, Count, Number, ServiceName
from nemo_evaluator.config.scoring import MetricBase
from nemo_evaluator.core.errors import JudgeError, ScorerError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring._ask import Judge, client_of
from nemo_evaluator.scoring._reply import judge_reply
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.metric import Canary, MetricInput, MetricResult

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.store.journal_record import CanaryFields

_ONE: Final = ("reward", "score")


class RewardModelMetric(MetricBase):
    """A reward model that scores the answer."""

    type: Literal["reward_model"] = "reward_model"
    service: ServiceName = Field(description="The reward model.")
    mode: Literal["single", "multi_aspect", "pairwise"] = Field(
        "single", description="How the model is asked."
    )
    aspect: str | None = Field(None, description="Aspect to read, with `multi_aspect`.")
    score_range: tuple[Number, Number] = Field(
        (0.0, 1.0), description="Lowest and highest score of the model."
    )
    threshold: Number = Field(0.5, description="Score from which an answer counts as right.")
    timeout: Above0 = Field(120.0, description="Seconds for one score.")
    max_retries: Count = Field(2, description="Tries after the first one.")
    canaries: bool = Field(
        True, description="Check first that the model tells a right answer from a wrong one."
    )

    @model_validator(mode="after")
    def _range(self) -> RewardModelMetric:
        if not self.score_range[0] < self.score_range[1]:
            raise PydanticCustomError("score_range", "score_range must go from low to high")
        return self


class RewardModel:
    """``type: reward_model``.

    ``single`` reads one number; ``multi_aspect`` reads one of several (``aspect``, else their mean); ``pairwise``
    scores the answer and the reference, and gives 1, 0.5 or 0. In the first two modes the reward is the number's place
    in ``score_range``. An answer whose number reaches ``threshold`` counts as right (``accuracy``).
    """

    def __init__(
        self, config: RewardModelMetric, clients: Mapping[str, Client], environment: object = None
    ) -> None:
        client = client_of(clients, config.service)
        self.name = config.name
        self._judge = Judge(
            client, 0.0, config.timeout, max_retries=config.max_retries, canaries=config.canaries
        )
        self._mode = config.mode
        self._aspect = config.aspect
        self._range = config.score_range
        self._threshold = config.threshold
        facts = {
            "mode": self._mode,
            "aspect": self._aspect,
            "range": self._range,
            "threshold": self._threshold,
        }
        self.fingerprint = self._judge.fingerprint("reward_model", {}, **facts)

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Score the answer; with ``mode: pairwise``, compare its score with that of the reference.

        Raises:
            ScorerError: The mode is ``pairwise`` and the problem has no reference.
            JudgeError: The model failed, or its reply has no number.
        """
        score, details = await self._score(sample.seed, strip_reasoning(sample.response).strip())
        details |= {"score": score, "correct": score >= self._threshold}
        if self._mode != "pairwise":
            low, high = self._range
            return MetricResult(min(1.0, max(0.0, (score - low) / (high - low))), details)
        if not sample.seed.expected_answer:
            raise ScorerError(
                f"metric {self.name!r}: mode pairwise compares with the reference answer, and this problem has none",
                hint="use mode: single",
            )
        reference_score, _ = await self._score(sample.seed, sample.seed.expected_answer)
        details |= {"reference_score": reference_score}
        return MetricResult(
            1.0 if score > reference_score else 0.5 if score == reference_score else 0.0, details
        )

    async def check(self, first: SeedResult) -> CanaryFields:
        """Check that the two canaries do not get the same number."""

        async def raw(sample: MetricInput) -> MetricResult:
            return MetricResult(*await self._score(sample.seed, sample.response))

        return await self._judge.check(Canary(sure=False), raw)

    def aggregate(self, details: Iterable[JsonDict]) -> dict[str, float]:
        """Return the share of answers that reach the threshold."""
        correct_flags = [row["correct"] for row in details if "correct" in row]
        if correct_flags:
            return {"accuracy": sum(correct_flags) / len(correct_flags)}
        return {}

    async def _score(self, seed: SeedResult, response: str) -> tuple[float, JsonDict]:
        """Score one response to a problem; returns the number, and the details that rows store."""
        turns: list[Message] = list(seed.messages or [{"role": "user", "content": seed.prompt}])
        messages = [*turns, {"role": "assistant", "content": response}]
        (value, aspects), facts = await self._judge.ask(messages, self._read)
        return value, {**({"aspects": aspects} if aspects else {}), **facts}

    def _read(self, text: str) -> tuple[float, dict[str, float]]:
        """Parse the number, and with ``mode: multi_aspect`` all aspects, from the reply."""
        if self._mode == "multi_aspect":
            pairs = _numbers(text)
            if not pairs:
                raise JudgeError("it names no aspect with a number")
            if self._aspect is None:
                return sum(pairs.values()) / len(pairs), pairs
            if self._aspect.lower() not in pairs:
                raise JudgeError(f"it has no aspect {self._aspect!r} (it has {', '.join(pairs)})")
            return pairs[self._aspect.lower()], pairs
        try:
            return _finite(text), {}
        except JudgeError:
            pairs = _numbers(text)
        candidates = [pairs[name] for name in _ONE if name in pairs] or [*pairs.values()]
        if len(pairs) != 1 and pairs.keys().isdisjoint(_ONE):
            raise JudgeError("it is not one number")
        return candidates[0], {}


def _numbers(text: str) -> dict[str, float]:
    """Parse the numbers of a reply that is a JSON object, or a list such as ``helpfulness:0.4,correctness:0.9``."""
    try:
        reply = judge_reply(text)
    except JudgeError:
        pairs: list[list[str]] = []
        for part in text.replace("\n", ",").split(","):
            if part.strip():
                pairs.append(part.replace("=", ":").split(":"))
        numbers_by_name = {
            pair[0].strip().lower(): _finite(pair[1]) for pair in pairs if len(pair) == 2
        }
        if len(numbers_by_name) != len(pairs):
            raise JudgeError("it is more than names with numbers") from None
        return numbers_by_name
    numbers: dict[str, float] = {}
    for name, value in reply.items():
        if isinstance(value, (int, float)) and math.isfinite(value):
            numbers[str(name).lower()] = float(value)
    return numbers


def _finite(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise JudgeError(f"{text[:40]!r} is not a finite number")
    return number


KIND: Final = Kind(RewardModelMetric, RewardModel)
