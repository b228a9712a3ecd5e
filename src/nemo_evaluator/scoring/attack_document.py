"""The report of attacks on a judge as JSON, as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict

from nemo_evaluator.core.types import JsonDict


class AttackCounts(TypedDict):
    """How many attacks of one kind were tried, and how many worked."""

    tried: int
    flipped: int


class AttackDocument(TypedDict):
    """The outcome of all attacks on one judge; see ``AttackReport``."""

    judge: str
    flip_rate: float | None
    kinds: dict[str, AttackCounts]
    tells_right_from_wrong: bool | None
    judged_unattacked: int
    misjudged_unattacked: int
    no_verdict: int
    examples: list[JsonDict]
