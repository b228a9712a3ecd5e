"""Calibrations for people."""

from collections.abc import Sequence

from nemo_evaluator.decisions.calibrate.report import CalibrationReport
from nemo_evaluator.metrics import Interval
from nemo_evaluator.reports import _words as words
from nemo_evaluator.reports._page import plain_text


def calibrations_text(found: Sequence[CalibrationReport]) -> str:
    """All calibrations as plain text; with several models, the judge's bias by model."""
    biases = {report.run.model: report.judges[0].agreement.bias for report in found if report.judges}
    rows = [[model, f"{bias:+.4f}"] for model, bias in biases.items()] if len(biases) > 1 else []
    return plain_text("calibration.txt.j2", found=found, biases=words.columns(rows), bounds=_bounds)


def _bounds(found: Interval, *, sign: bool = False) -> str:
    mark = "+" if sign else ""
    if found.lower is None or found.upper is None:
        return words.NONE if found.value != found.value else f"{found.value:{mark}.4f}"
    return f"{found.value:{mark}.4f} [{found.lower:{mark}.4f}, {found.upper:{mark}.4f}]"
