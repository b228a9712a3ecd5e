"""Which labels count: those of drawn rows, whose answers have not changed since. Drawn rows without one count too."""

from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import HEADLINE, JudgedRows
from nemo_evaluator.runs.calibration import LabelDraw
from nemo_evaluator.runs.labels import Label
from nemo_evaluator.statistics.missing_labels import CompletedLabels

# The fewest labels that a calibration needs.
LEAST: Final = 10
# The range of labels, as rewards.
_LOWEST: Final = 0.0
_HIGHEST: Final = 1.0


def drawn_only(
    labels: dict[tuple[int, int], Label], draw: LabelDraw | None
) -> dict[tuple[int, int], Label]:
    """The labels that count: those of drawn rows, or all of them without a draw."""
    if draw is None:
        return dict(labels)
    drawn = {row.key for row in draw.rows}
    return {key: label for key, label in labels.items() if key in drawn}


def check_draw(
    rows: JudgedRows,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    *,
    convenience: bool,
) -> None:
    """Refuse labels of rows that were not drawn, and labels of answers that have changed.

    Args:
        rows: The rows of the run.
        labels: The labels by row.
        draw: The drawn rows.
        convenience: Accept labels of rows that were not drawn.

    Raises:
        UsageError: A label is refused.
    """
    drawn_answers: dict[tuple[int, int], str] = {}
    if draw is not None:
        drawn_answers = {row.key: row.answer for row in draw.rows}
    stray = [key for key in labels if key not in drawn_answers]
    if stray and not convenience:
        first_problem, _ = stray[0]
        raise UsageError(
            f"{counted(len(stray), 'label')} on rows that were not drawn, such as problem {first_problem}: "
            "hand-picked labels bias the score",
            hint="draw rows with `nel judge sample RUN`, or accept the bias with --convenience, which marks the result",
        )
    present_answers = dict(zip(rows.keys, rows.answers, strict=True))
    changed: list[tuple[int, int]] = []
    for key in labels:
        drawn_answer = drawn_answers.get(key)
        present_answer = present_answers.get(key)
        if drawn_answer is None or present_answer is None:
            continue
        if present_answer != drawn_answer:
            changed.append(key)
    if changed:
        message = f"the calibration is stale: {counted(len(changed), 'answer')} changed since the rows were drawn"
        raise UsageError(message, hint="draw and label again: nel judge sample RUN --replace")


def completed(
    rows: JudgedRows,
    labels: dict[tuple[int, int], Label],
    draw: LabelDraw | None,
    judge: str = HEADLINE,
) -> CompletedLabels:
    """Complete the labels of the drawn rows that people left out or were not sure of.

    Args:
        rows: The rows of the run.
        labels: The labels by row.
        draw: The drawn rows; None when nothing was drawn, and so nothing is missing.
        judge: The judge whose grades the labels correct.
    """
    lowest = rows.labelled(labels, draw, judge, missing=_LOWEST)
    highest = rows.labelled(labels, draw, judge, missing=_HIGHEST)
    given = rows.labelled(labels, draw, judge).labels
    return CompletedLabels(lowest, highest, missing=lowest.labels - given)


def missing_note(missing: int, labels: int) -> str:
    """The sentence about drawn rows without a label.

    Args:
        missing: Number of drawn rows that have none, or an unsure one.
        labels: Number of labels.
    """
    return (
        f"{missing:,} of {counted(missing + labels, 'drawn row')} have no label or an unsure one: the interval holds "
        "whatever labels they would get, so it narrows with every label"
    )
