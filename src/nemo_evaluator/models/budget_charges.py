"""The charges of a budget as types.

The types cost nothing at run time: import them under ``TYPE_CHECKING``.
"""

from typing import TypedDict


class Charges(TypedDict, total=False):
    """What a budget was charged; an amount that is absent counts as 0."""

    usd: float
    tokens: float
    requests: float


class BudgetSpent(Charges):
    """The charges of a budget, and the minutes since its start."""

    minutes: float
