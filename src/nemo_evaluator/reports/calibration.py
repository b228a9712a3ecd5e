"""Calibrations for people."""

from __future__ import annotations

from collections.abc import Sequence

from nemo_evaluator.decisions.calibrate.report import CalibrationReport, JudgeReport
from nemo_evaluator.metrics import Interval
from nemo_evaluator.reports import _words as words


def calibrations_text(found: Sequence[CalibrationReport]) -> str:
    """All calibrations as plain text; with several models, the judge's bias by model."""
    parts = [_one(report) for report in found]
    biases = {report.run.model: report.judges[0].agreement.bias for report in found if report.judges}
    if len(biases) > 1:
        rows = [[model, f"{bias:+.4f}"] for model, bias in biases.items()]
        parts.append("\n".join(["the judge's mean reward minus that of people, by model", *words.columns(rows)]))
    return words.printable("\n\n".join(parts)) + "\n"


def _one(report: CalibrationReport) -> str:
    lines = [
        f"{report.run.name}: {counted_labels(report)}",
        f"  judge alone  {report.judges[0].raw:.4f}" if report.judges else "  carried from another run",
        f"  corrected    {_bounds(report.corrected)}  ({report.corrected.method})",
    ]
    lines += [line for judge in report.judges for line in _judge(judge, len(report.judges) > 1)]
    if report.length_bias is not None:
        lines.append(f"  extra reward for long answers {_bounds(report.length_bias, sign=True)}")
    if report.position_bias is not None:
        lines.append(f"  the first place is worth {report.position_bias:+.3f} grades to the judge")
    return "\n".join([*lines, *(f"  note: {note}" for note in (report.note, *report.notes))])


def counted_labels(report: CalibrationReport) -> str:
    """How much was labelled, and how the rows were chosen."""
    how = "chosen by people, not drawn" if report.convenience else f"draw: {report.method}"
    return f"{report.labels:,} labels on {report.rows:,} rows ({how})"


def _judge(judge: JudgeReport, named: bool) -> list[str]:
    told = judge.agreement
    kappa = words.NONE if told.kappa is None else f"{told.kappa:.3f}"
    lines = [f"  {judge.judge}: raw {judge.raw:.4f}, corrected {_bounds(judge.corrected.interval)}"] if named else []
    return [
        *lines,
        f"  labels alone {_bounds(judge.corrected.alone)}; weight of the judge {judge.corrected.trust:.2f}",
        f"  both right {told.both_right:,}, both wrong {told.both_wrong:,}, only the judge says right "
        f"{told.judge_only:,}, only people do {told.people_only:,}",
        f"  agreement {told.accuracy:.1%}, Cohen's kappa {kappa} (low when nearly all answers are right, or wrong), "
        f"Gwet's AC1 {told.ac1:.3f}",
        f"  sensitivity {_bounds(told.sensitivity)}, specificity {_bounds(told.specificity)}, bias {told.bias:+.4f}",
    ]


def _bounds(found: Interval, *, sign: bool = False) -> str:
    mark = "+" if sign else ""
    if found.lower is None or found.upper is None:
        return words.NONE if found.value != found.value else f"{found.value:{mark}.4f}"
    return f"{found.value:{mark}.4f} [{found.lower:{mark}.4f}, {found.upper:{mark}.4f}]"
