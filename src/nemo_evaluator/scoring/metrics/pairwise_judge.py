"""``type: pairwise_judge``: a model that prefers one of two answers."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName, ServiceName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.errors import BoundaryError, JudgeError
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring._ask import STOPS, Judge, client_of
from nemo_evaluator.scoring._reply import FENCE_NOTE, fenced, judge_reply
from nemo_evaluator.scoring._rubric import Rubric, task_text
from nemo_evaluator.scoring._text import strip_reasoning
from nemo_evaluator.scoring.metric import Canary, MetricInput, MetricResult

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.store.journal_record import CanaryFields

_REMEMBERED: Final = 10_000


class PairwiseJudgeMetric(RubricMetric):
    """A model that prefers one of two answers: the solver's or the baseline's."""

    type: Literal["pairwise_judge"] = "pairwise_judge"
    judge_service: JudgeName = Field(description="The judge.")
    baseline_service: ServiceName = Field(description="The model that gives the other answer.")
    swap_check: Literal[True] = Field(True, description="Answers are always judged in both orders.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class PairwiseJudge:
    """``type: pairwise_judge``: 1 for a win over the baseline, 0.5 for a tie, 0 for a loss.

    The judge grades both answers on the rubric's scale, once in either order. A winner that depends on the order counts
    as a tie.
    """

    def __init__(
        self, config: PairwiseJudgeMetric, clients: Mapping[str, Client], environment: object = None
    ) -> None:
        self.name = config.name
        self._rubric = Rubric.of(config)
        self._judge = Judge.of(config, client_of(clients, config.judge_service))
        self._baseline = client_of(clients, config.baseline_service)
        self._answers: OrderedDict[str, asyncio.Task[str]] = OrderedDict()
        self.fingerprint = self._judge.fingerprint(
            "pairwise", self._rubric.describe(), self._baseline, split="tie"
        )

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Compare the answer with the baseline's in both orders."""
        baseline_answer = await self._baseline_answer(sample.seed)
        pairs = [
            await self.compare(sample, baseline_answer, swapped=swapped)
            for swapped in (False, True)
        ]
        first, second = (
            1.0 if mine > theirs else 0.5 if mine == theirs else 0.0 for mine, theirs in pairs
        )
        mine, theirs = ([float(pair[side]) for pair in pairs] for side in (0, 1))
        details: JsonDict = {
            "scores": mine,
            "baseline_scores": theirs,
            "baseline_response": baseline_answer,
        }
        details["consistent"] = first == second
        return MetricResult(first if first == second else 0.5, details)

    async def check(self, first: SeedResult) -> CanaryFields:
        """Check that the right canary wins over the wrong one, whichever of them comes first."""
        canary = Canary(sure=self._rubric.is_default)

        async def against(sample: MetricInput) -> MetricResult:
            right = sample.response == canary.right
            mine, theirs = await self.compare(
                sample, canary.wrong if right else canary.right, swapped=False
            )
            return MetricResult(float(mine > theirs))

        return await self._judge.check(canary, against)

    def aggregate(self, details: Iterable[JsonDict]) -> dict[str, float]:
        """Return the share of rows on which both orders had the same winner."""
        consistent_rows = [row["consistent"] for row in details if "consistent" in row]
        if consistent_rows:
            return {"consistency": sum(consistent_rows) / len(consistent_rows)}
        return {}

    async def _baseline_answer(self, seed: SeedResult) -> str:
        """Return the baseline's answer, which is requested once per problem and shared by its repeats."""
        messages: list[Message] = seed.messages or [
            *([{"role": "system", "content": seed.system}] if seed.system else []),
            {"role": "user", "content": seed.prompt},
        ]
        key = digest(messages)
        if key not in self._answers:
            self._answers[key] = asyncio.ensure_future(self._ask_baseline(messages))
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        try:
            return await asyncio.shield(self._answers[key])
        except BoundaryError as error:
            self._answers.pop(key, None)
            if isinstance(error, STOPS):
                raise
            raise JudgeError(
                f"baseline {self._baseline.endpoint.name!r}: {error.message}"
            ) from error

    async def _ask_baseline(self, messages: list[Message]) -> str:
        return strip_reasoning((await self._baseline.chat(messages)).content).strip()

    async def compare(
        self, sample: MetricInput, other: str, *, swapped: bool
    ) -> tuple[float, float]:
        """Grade an answer and another one.

        Args:
            sample: The answer, and its problem.
            other: The other answer.
            swapped: Show the other answer first.

        Returns:
            The grade of the answer, and that of the other one.
        """
        answer = strip_reasoning(sample.response).strip()
        first, second = (other, answer) if swapped else (answer, other)
        parts = [fenced("task", task_text(sample.seed))]
        if sample.seed.expected_answer:
            parts.append(fenced("reference", sample.seed.expected_answer))
        parts += [fenced("answer_a", first or "(empty)"), fenced("answer_b", second or "(empty)")]
        question = (
            f"{self._rubric.text}\n\nTwo answers to one task are given below. Grade each by itself, from "
            f"{self._rubric.scale}; equal grades mean a tie.\n\n"
            + "\n\n".join(parts)
            + f"\n\n{FENCE_NOTE}\n\n"
            "Reply with one JSON object and nothing else: "
            '{"reasoning": "one or two sentences", "score_a": a number, "score_b": a number}'
        )
        messages = [
            {"role": "system", "content": self._rubric.system_prompt},
            {"role": "user", "content": question},
        ]
        (score_a, score_b), _ = await self._judge.ask(
            messages, self._read, self._rubric.schema("score_a", "score_b")
        )
        return (score_b, score_a) if swapped else (score_a, score_b)

    def _read(self, text: str) -> tuple[float, float]:
        """Parse both grades from the judge's reply."""
        value = judge_reply(text)
        if not {"score_a", "score_b"} <= value.keys():
            raise JudgeError("it has no fields `score_a` and `score_b`")
        return self._rubric.check(value["score_a"]), self._rubric.check(value["score_b"])


KIND: Final = Kind(PairwiseJudgeMetric, PairwiseJudge)
