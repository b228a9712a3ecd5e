"""How a model is asked to generate. A null leaves the choice to the next level, in the end to the server."""

from __future__ import annotations

from pydantic import Field

from nemo_evaluator.config.fields import Int, Model, Penalty, Positive, Share, Temperature


class GenerationConfig(Model):
    """Generation settings of a service or a solver; the solver's win, field by field."""

    temperature: Temperature | None = Field(None, description="Sampling temperature.")
    top_p: Share | None = Field(None, description="Nucleus sampling: share of probability mass to keep.")
    max_tokens: Positive | None = Field(None, description="Longest answer, in tokens.")
    seed: Int | None = Field(None, description="Sampling seed of the first repeat; others derive theirs.")
    stop: list[str] | None = Field(None, description="Strings that end the answer.")
    frequency_penalty: Penalty | None = Field(None, description="Penalty on frequent tokens.")
    presence_penalty: Penalty | None = Field(None, description="Penalty on tokens already present.")

    def over(self, base: GenerationConfig | None) -> GenerationConfig:
        """These settings laid over ``base``: whatever is null here comes from there."""
        if base is None:
            return self
        own = self.model_dump(exclude_none=True)
        return GenerationConfig(**{**base.model_dump(exclude_none=True), **own})
