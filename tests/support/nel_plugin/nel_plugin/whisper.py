"""A scorer: right when nothing is in capitals."""

from __future__ import annotations

from nemo_evaluator.scoring import ScorerInput


def whisper(sample: ScorerInput) -> dict[str, bool]:
    """Score one answer."""
    return {"correct": sample.response == sample.response.lower()}
