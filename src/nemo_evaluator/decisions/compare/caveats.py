"""What a reader of a comparison must know besides its verdict."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.compare.comparability import Difference, unstated
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.decisions.usability import tampered
from nemo_evaluator.metrics import STOPPED, spending_of
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.runs.row_table import RowTable

WORDS: Final = ("the baseline", "the candidate")
_MANY_UNANSWERED: Final = 0.05


def caveats(
    runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable], pairing: Pairing, differences: Sequence[Difference]
) -> list[str]:
    """Warnings on the runs, on what did not pair, and on what was not the same on both sides."""
    found = [line for word, run, side in zip(WORDS, runs, rows, strict=True) for line in _of_side(word, run, side)]
    found += _two_orders(*runs)
    found += pairing.warnings
    found += _left_out(pairing)
    found += _asked_differently(*rows, pairing)
    if not any(difference.what == "repeats" for difference in differences):
        found += _answers(pairing)
    return [*found, *map(str, differences), *unstated(*runs)]


def _of_side(word: str, run: Bundle, rows: RowTable) -> Iterator[str]:
    if not len(rows):
        yield f"{word} has no rows: {run.results}"
    if words := rule_words(run.stopped):
        yield f"{word} had a stop rule ({words}); the interval allows for its looks, the tests beside it do not"
    elif run.stop_reason:
        yield f"{word} did not run to its end: {run.stop_reason}"
    yield from (f"{word}: {note}" for note in run.notes)
    yield from _noise(word, run)
    if forged := int((tampered(rows) & (rows.reward == 0)).sum()):
        yield f"{word}: {counted(forged, 'row')} that reached for the judge (tamper), counted as 0"
    if rows.unanswered_share > _MANY_UNANSWERED:
        yield unanswered_words(word, rows)
    if rows.malformed:
        yield f"{word}: {counted(rows.malformed, 'malformed line')}, left out"


def _noise(word: str, run: Bundle) -> Iterator[str]:
    if run.noise and run.noise.get("measured_by") != tie(as_dict(run.config.get("fingerprints"))):
        yield f"{word}: its noise floor was measured on other settings and is left out; run `nel noise` again"
        return
    changes = [as_dict(run.noise.get(name)) for name in ("again", "other_level")]
    worst = max(changes, key=lambda change: as_number(change.get("score")) or 0.0)
    if verdicts := as_number(worst.get("verdicts")):
        yield (
            f"{word} differs from itself by {100 * (as_number(worst.get('score')) or 0.0):.1f} points when it is asked "
            f"again ({verdicts:.1%} of verdicts change): a difference of that size tells nothing of the models"
        )


def unanswered_words(word: str, rows: RowTable) -> str:
    """How many answers of a side say nothing, or were filtered."""
    return f"{word}: {rows.unanswered_share:.1%} of the answers are empty or content-filtered"


def _two_orders(left: Bundle, right: Bundle) -> Iterator[str]:
    seeds = left.config.get("shuffle_seed"), right.config.get("shuffle_seed")
    if spending_of(left.stopped) == spending_of(right.stopped) == STOPPED and seeds[0] != seeds[1]:
        yield (
            f"rules stopped both runs, in different orders (shuffle_seed {seeds[0]}, {seeds[1]}): which problems they "
            "share depends on both, and no interval quite allows for that"
        )


def _left_out(pairing: Pairing) -> Iterator[str]:
    if pairing.only_baseline or pairing.only_candidate:
        only = f"{pairing.only_baseline:,} only in the baseline, {pairing.only_candidate:,} only in the candidate"
        yield f"{counted(len(pairing), 'problem')} paired; {only}"
    unscored = pairing.baseline.unscored, pairing.candidate.unscored
    if any(unscored):
        where = f"{unscored[0]:,} in the baseline, {unscored[1]:,} in the candidate"
        yield f"problems without a scored answer are left out: {where}"


def _asked_differently(baseline: RowTable, candidate: RowTable, pairing: Pairing) -> Iterator[str]:
    if not len(pairing):
        return
    at_left, at_right = pairing.baseline.first, pairing.candidate.first
    for what, left, right in (
        ("prompts differ", baseline.prompt, candidate.prompt),
        ("dataset differs: expected answers are not the same", baseline.expected, candidate.expected),
    ):
        one, two = left[at_left], right[at_right]
        # 0 stands for a row that does not say.
        count = int(np.count_nonzero((one != two) & (one != 0) & (two != 0)))
        if count:
            yield f"{what} on {count:,} of {len(pairing):,} paired problems"


def _answers(pairing: Pairing) -> Iterator[str]:
    if not len(pairing):
        return
    left, right = (float(side.answers.mean()) for side in (pairing.baseline, pairing.candidate))
    if abs(left - right) > 0.1 * min(left, right):
        yield f"answers a problem: {left:.3g} in the baseline, {right:.3g} in the candidate"
