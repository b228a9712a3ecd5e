"""``type: judge``: a model that grades the answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, runtime_checkable

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.errors import JudgeError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.scoring._ask import Judge, client_of
from nemo_evaluator.scoring._reply import judge_reply
from nemo_evaluator.scoring._rubric import Rubric
from nemo_evaluator.scoring.metric import Canary, Metric, MetricInput, MetricResult

if TYPE_CHECKING:
    from nemo_evaluator.models import Client
    from nemo_evaluator.store.journal_record import CanaryFields

# The fields of a reply that may hold the judge's reason.
_REASONS: Final = ("reasoning", "reason", "explanation", "justification", "rationale", "notes")


@runtime_checkable
class JudgedEnvironment(Protocol):
    """An environment that defines the judge's question and parses its reply.

    The function ``judge_prompt`` may have two attributes: ``schema``, the JSON schema of the reply, and ``canary``.
    Either method may have a further parameter ``found``, which receives the result of the benchmark's own scorer.
    """

    def judge_prompt(self, seed: SeedResult, response: str) -> list[Message]:
        """Return the messages that ask the judge about a response; may be async."""

    def parse_judge(self, answer: str, seed: SeedResult) -> JsonDict:
        """Parse the judge's reply.

        Returns:
            Details for the row, with at least ``reward`` between 0 and 1.

        Raises:
            JudgeError: The reply cannot be parsed.
        """


class JudgeMetric(RubricMetric):
    """A model that grades the answer."""

    type: Literal["judge"] = "judge"
    service: JudgeName = Field(description="The judge.")
    system_prompt: str | None = Field(None, description="System prompt of the judge.")
    swap_check: bool = Field(False, description="Judge twice with the order of the texts swapped.")
    reference_free: bool = Field(False, description="Do not show the expected answer.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


class RubricJudge:
    """``type: judge``: one judge, one rubric."""

    def __init__(
        self,
        config: RubricMetric,
        client: Client,
        rubric: Rubric,
        *,
        name: str | None = None,
        swap_check: bool = False,
    ) -> None:
        self.name = name or config.name
        self._judge = Judge.of(config, client)
        self.rubric = rubric
        self._swap = swap_check
        self.fingerprint = self._judge.fingerprint("judge", rubric.describe(), swap=swap_check)

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Return the reward of the grade; with ``swap_check`` the mean of both orders."""
        score, details = await self.grade(sample, swapped=False)
        if not self._swap:
            return MetricResult(self.rubric.reward(score), details)
        swapped_score, _ = await self.grade(sample, swapped=True)
        details |= {"swap_score": swapped_score, "position_bias": abs(score - swapped_score)}
        return MetricResult(
            (self.rubric.reward(score) + self.rubric.reward(swapped_score)) / 2, details
        )

    async def check(self, first: SeedResult) -> CanaryFields:
        """Check that the judge grades the canaries correctly."""
        return await self._judge.check(Canary(sure=self.rubric.is_default), self.measure)

    async def grade(self, sample: MetricInput, *, swapped: bool) -> tuple[float, JsonDict]:
        """Return the grade on the rubric's own scale, and the details that rows store."""
        messages = self.rubric.messages(sample.seed, sample.response, swapped=swapped)
        (score, reasoning), facts = await self._judge.ask(
            messages, self.rubric.read, self.rubric.schema("score")
        )
        return score, {"score": score, "reasoning": reasoning, **facts}


class EnvironmentJudge:
    """``type: judge`` without a rubric, for a benchmark that defines the question and parses the reply."""

    def __init__(self, config: JudgeMetric, client: Client, environment: JudgedEnvironment) -> None:
        self.name = config.name
        self._environment = environment
        self._judge = Judge.of(config, client)
        system_prompt = config.system_prompt
        if system_prompt:
            self._system: list[Message] = [{"role": "system", "content": system_prompt}]
        else:
            self._system = []
        self._canary: Canary | None = getattr(environment.judge_prompt, "canary", None)
        self._schema: JsonDict | None = getattr(environment.judge_prompt, "schema", None)
        # The hooks themselves are part of the environment's fingerprint, but not the texts that they close over.
        has_static_question = self._canary is not None and not inspect.iscoroutinefunction(
            environment.judge_prompt
        )
        if has_static_question and self._canary:
            canary_messages: list[Message] | None = environment.judge_prompt(
                self._canary.seed, self._canary.right
            )
        else:
            canary_messages = None
        self.fingerprint = self._judge.fingerprint(
            "environment", {}, system=system_prompt, asked=canary_messages
        )

    async def check(self, first: SeedResult) -> CanaryFields:
        """Check the benchmark's own canary, or else one of its first problem."""
        return await self._judge.check(self._canary or Canary.of(first), self.measure)

    async def measure(self, sample: MetricInput) -> MetricResult:
        """Ask the benchmark's question and return the reward that the benchmark reads from the reply.

        Raises:
            JudgeError: The judge failed, or its reply has no reward.
        """
        messages = _told(self._environment.judge_prompt, sample, sample.seed, sample.response)
        if inspect.isawaitable(messages):
            messages = await messages

        def read(text: str) -> JsonDict:
            try:
                parsed = dict(_told(self._environment.parse_judge, sample, text, sample.seed))
                return _reply_facts(text) | parsed
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise JudgeError(f"{type(error).__name__}: {error}") from error

        verdict, facts = await self._judge.ask([*self._system, *messages], read, self._schema)
        reward = verdict.pop("reward", None)
        if not isinstance(reward, (int, float)):
            raise JudgeError(f"the benchmark read no reward out of the judge's answer: {reward!r}")
        return MetricResult(float(reward), {**verdict, **facts})


def _reply_facts(text: str) -> JsonDict:
    """Return the judge's reply as it was sent, and its reason if the reply names one."""
    facts: JsonDict = {"raw": text}
    try:
        reply = judge_reply(text)
    except JudgeError:
        # The benchmark may accept replies of another form.
        return facts
    for field in _REASONS:
        if isinstance(reply.get(field), str):
            facts["reasoning"] = reply[field]
            break
    return facts


def _told(hook: Callable[..., Any], sample: MetricInput, *given: Any) -> Any:
    """Call a method of the benchmark, with the result of its scorer if it has a parameter ``found``."""
    if "found" in inspect.signature(hook).parameters:
        extra = {"found": sample.found}
    else:
        extra = {}
    return hook(*given, **extra)


def build(config: JudgeMetric, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """Create the judge of a rubric; without a rubric, that of the benchmark's own question, if it has one.

    Raises:
        UsageError: A setting has no effect, because the benchmark has its own question.
    """
    client = client_of(clients, config.service)
    if (
        config.rubric is None
        and config.rubric_file is None
        and isinstance(environment, JudgedEnvironment)
    ):
        unused = sorted(config.model_fields_set & {"max_score", "swap_check", "reference_free"})
        if unused:
            raise UsageError(
                f"metric {config.name!r}: this benchmark brings its own question for the judge, so {', '.join(unused)} "
                "would have no effect",
                hint="leave it out, or give a rubric",
            )
        return EnvironmentJudge(config, client, environment)
    rubric = Rubric.of(config, config.system_prompt, config.reference_free)
    return RubricJudge(config, client, rubric, swap_check=config.swap_check)


def default_judge(client: Client, environment: object) -> Metric:
    """Create the judge of a benchmark that needs one and has no judge configured.

    It uses the default rubric unless the benchmark has its own question.
    """
    return build(JudgeMetric(name="judge", service="judge"), {"judge": client}, environment)


KIND: Final = Kind(JudgeMetric, build)
