"""``nel judge calibrate RUN``: the score as people would have given it."""

from __future__ import annotations

from pathlib import Path

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.cli.judge._run import bundle_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.decisions.calibrate.judged_rows import read_judged
from nemo_evaluator.decisions.calibrate.report import CalibrationReport, calibrate, carry, check_draw
from nemo_evaluator.reports.calibration import calibrations_text
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.label_file import read_label_file
from nemo_evaluator.runs.labels import append_label, read_labels


@click.command("calibrate")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_ids)
@click.option(
    "--labels",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Labels as .csv or .jsonl: problem_idx, repeat, and label (right, wrong, unsure) or grade.",
)
@click.option("--convenience", is_flag=True, help="Use labels on rows that were not drawn; the result is marked.")
@click.option("--from", "source", metavar="RUN", help="Carry that run's calibration over (Rogan-Gladen).")
@click.option("--benchmark", help="Which benchmark of RUN.")
@click.option("--json", "as_json", is_flag=True, help="Output JSON.")
def calibrate_runs(
    runs: tuple[str, ...],
    file: Path | None,
    convenience: bool,
    source: str | None,
    benchmark: str | None,
    as_json: bool,
) -> None:
    """Set the judge of each RUN against its labels: agreement, bias, and the corrected score with its interval.

    The result is kept in the run's bundle; reports and exports show it until the judge changes.
    """
    if (file is not None or source is not None) and (len(runs) > 1 or (file is not None and source is not None)):
        raise UsageError("--labels and --from are for one run, one of them at a time")
    found = [_one(bundle_of(run, benchmark), file, convenience, source, benchmark) for run in runs]
    for report in found:
        report.save()
    documents = [report.to_dict() for report in found]
    if as_json:
        click.echo(dumps(documents[0] if len(documents) == 1 else documents))
    else:
        click.echo(calibrations_text(found), nl=False)


def _one(
    run: Bundle, file: Path | None, convenience: bool, source: str | None, benchmark: str | None
) -> CalibrationReport:
    if source is not None:
        return carry(run, bundle_of(source, benchmark or run.name))
    folder = run.path.parent
    labels, draw = read_labels(folder), read_draw(folder)
    if file is not None:
        rows = read_judged(run)
        given = read_label_file(file, rows.scale)
        draw = draw or read_draw(file.parent)
        check_draw(rows, given, draw, convenience=convenience)
        if not convenience and draw is not None:
            draw.save(folder)
            for one in given.values():
                append_label(folder, one)
        labels |= given
    if not labels:
        raise UsageError(f"{run.name} has no labels", hint="nel judge sample RUN, then nel judge label RUN")
    return calibrate(run, labels, draw, convenience=convenience)
