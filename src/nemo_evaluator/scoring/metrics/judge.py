"""``type: judge``: a model that grades the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from nemo_evaluator.config.fields import JudgeName
from nemo_evaluator.config.scoring import RubricMetric
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.scoring.judge import EnvironmentJudge, JudgedEnvironment, RubricJudge
from nemo_evaluator.scoring.metric import Metric
from nemo_evaluator.scoring.metrics._parts import client_of, rubric_of, settings_of

if TYPE_CHECKING:
    from nemo_evaluator.models import Client


class JudgeMetric(RubricMetric):
    """A model that grades the answer."""

    type: Literal["judge"] = "judge"
    service: JudgeName = Field(description="The judge.")
    system_prompt: str | None = Field(None, description="System prompt of the judge.")
    swap_check: bool = Field(False, description="Judge twice with the order of the texts swapped.")
    reference_free: bool = Field(False, description="Do not show the expected answer.")
    allow_self_judge: bool = Field(False, description="Let a model judge its own answers.")


def build(config: JudgeMetric, clients: Mapping[str, Client], environment: object = None) -> Metric:
    """A judge without a rubric asks what the benchmark wants asked, if it does."""
    client, settings = client_of(clients, config.service), settings_of(config)
    if config.rubric is None and config.rubric_file is None and isinstance(environment, JudgedEnvironment):
        idle = sorted(config.model_fields_set & {"max_score", "swap_check", "reference_free"})
        if idle:
            raise UsageError(
                f"metric {config.name!r}: this benchmark brings its own question for the judge, so {', '.join(idle)} "
                "would have no effect",
                hint="leave it out, or give a rubric",
            )
        return EnvironmentJudge(
            config.name, client, environment, settings, config.system_prompt, canaries=config.canaries
        )
    rubric = rubric_of(config, system_prompt=config.system_prompt, reference_free=config.reference_free)
    return RubricJudge(config.name, client, rubric, settings, swap_check=config.swap_check, canaries=config.canaries)


def default_judge(client: Client, environment: object) -> Metric:
    """The judge of a benchmark that needs one, asked with the default rubric unless the benchmark brings a question."""
    return build(JudgeMetric(name="judge", service="judge"), {"judge": client}, environment)


KIND: Final = Kind(JudgeMetric, build)
