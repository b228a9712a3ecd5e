"""The report as CSV: one line per metric, every cell safe to open in a spreadsheet."""

import csv
import io
from typing import Final

from nemo_evaluator.reports._fields import FIELDS
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.runs.bundle import INVALID
from nemo_evaluator.runs.scores import Score

# The first seven columns are the documented ones; new columns come after them.
COLUMNS: Final = FIELDS["csv"]
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render_csv(report: EvalReport) -> str:
    """The whole report."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for bench in report.benchmarks:
        scores: list[Score | None] = [*([bench.headline] if bench.headline else []), *bench.others, *bench.scorers]
        for score in scores or [None]:
            writer.writerow([_cell(value) for value in _row(bench, score)])
    for one in report.unfinished:
        known = {"benchmark": one.name, "validity": INVALID}
        writer.writerow([_cell(known.get(column)) for column in COLUMNS])
    return out.getvalue()


def _row(bench: BenchmarkReport, score: Score | None) -> list[str | float | None]:
    cover = bench.coverage
    metric = (score.name, score.value, score.ci_lower, score.ci_upper) if score else ("", None, None, None)
    more = (str(score is bench.headline).lower(), score.ci_method, score.n) if score else ("", None, None)
    shares = (cover.planned, cover.scored, cover.failed, cover.share, bench.truncated_share, bench.unparsed_share)
    return [bench.name, bench.samples, bench.repeats, *metric, bench.model, *more, *shares, bench.status, bench.run_id]


def _cell(value: str | float | None) -> str | float:
    if value is None:
        return ""
    # A spreadsheet skips blanks in front of a formula, and so do we.
    if isinstance(value, str) and value.lstrip().startswith(_FORMULA_STARTS):
        return f"'{value}"
    return value
