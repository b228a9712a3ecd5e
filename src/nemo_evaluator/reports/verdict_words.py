"""The words of verdicts, each with its one meaning: pages print them, ``docs/verdicts.md`` explains them."""

from typing import Final

# Of a run: `nel eval run`, `nel check` and reports.
STATUSES: Final = {
    "VALID": "nothing speaks against the score",
    "DEGRADED": "the score exists, but something other than the model shaped it",
    "INVALID": "do not use the score, or there is none: the benchmark did not finish",
    "UNCHECKED": "an older file that does not say",
}
# Of a difference: a benchmark or a category in `nel compare`, a benchmark in `nel gate`.
VERDICTS: Final = {
    "PASS": "a loss beyond the limit is ruled out",
    "WARN": "a loss is certain, but not that it is beyond the limit",
    "INCONCLUSIVE": "a loss beyond the limit is neither certain nor ruled out",
    "BLOCK": "the loss is beyond the limit for certain",
}
# Of a release: `nel gate` as a whole.
DECISIONS: Final = {
    "GO": "every required benchmark is a PASS",
    "NO-GO": "a required benchmark is a BLOCK or missing",
    "INCONCLUSIVE": "neither: more or better data is needed",
}
ICONS: Final = {
    **{"PASS": "🟢", "WARN": "🟡", "INCONCLUSIVE": "⚪", "BLOCK": "🔴", "GO": "🟢", "NO-GO": "🔴"},
    **{"VALID": "🟢", "DEGRADED": "🟡", "INVALID": "🔴", "MISSING": "🔴"},
}


def explained(words: dict[str, str]) -> str:
    """The words with their meanings, as one sentence."""
    return "; ".join(f"{word}: {meaning}" for word, meaning in words.items()) + "."
