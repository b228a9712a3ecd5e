"""``nel judge sample``, ``label`` and ``calibrate``: human labels for a judge's verdicts, and the corrected score."""

from pathlib import Path
from typing import get_args

import click

from nemo_evaluator.cli._options import option, run_ids
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import (
    Method,
    draw_like,
    draw_rows,
    expected_widths,
    read_judged,
)
from nemo_evaluator.decisions.calibrate.report import (
    CalibrationReport,
    calibrate,
    carry,
    check_draw,
)
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.labels import Label, Verdict, append_label, read_label_file, read_labels
from nemo_evaluator.store.run_registry import find_run


def bundle_of(run: str, benchmark: str | None = None) -> Bundle:
    """Return a finished benchmark of a run.

    Args:
        run: A folder, a bundle or a run id.
        benchmark: Name of the benchmark; None: the only one.

    Raises:
        UsageError: If not exactly one benchmark fits.
    """
    if Path(run).exists():
        path: Path | str = Path(run)
    else:
        path = find_run(run).output_dir
    bundles = [bundle for bundle in find_runs(Path(path)) if benchmark in (None, bundle.name)]
    if len(bundles) != 1:
        names = ", ".join(sorted(bundle.name for bundle in bundles)) or "none"
        raise UsageError(
            f"{run} holds {len(bundles)} finished benchmarks ({names})",
            hint="choose with --benchmark NAME",
        )
    return bundles[0]


@click.command()
@click.argument("run", shell_complete=run_ids)
@option("--labels", "-n", type=click.IntRange(min=2), default=100, help="Number of rows to draw.")
@option(
    "--method",
    type=click.Choice(get_args(Method)),
    default="uniform",
    help="How to draw; stratified: more rows with rare verdicts; uncertainty: more rows where the judge is unsure.",
)
@option(
    "--like",
    metavar="RUN",
    help="Draw the same problems as were drawn from that run, for a paired comparison.",
)
@option("--seed", type=click.IntRange(min=0), default=0)
@option(
    "--replace",
    is_flag=True,
    help="Draw a new sample; keep earlier labels of rows that are in it.",
)
@option("--benchmark", help="Benchmark of RUN to use [default: the only one].")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def sample(
    run: str,
    labels: int,
    method: Method,
    like: str | None,
    seed: int,
    replace: bool,
    benchmark: str | None,
    as_json: bool,
) -> None:
    """Draw rows of RUN for people to label, and estimate the width of the corrected interval.

    The draw is kept beside the rows (label_draw.json), each row with its probability.
    """
    bundle = bundle_of(run, benchmark)
    folder = bundle.path.parent
    if read_draw(folder) is not None and not replace:
        hint = f"nel judge label {run}, or draw a new sample with --replace"
        raise UsageError(f"rows of {folder} have already been drawn", hint=hint)
    rows = read_judged(bundle)
    if like is None:
        draw = draw_rows(rows, labels, method, seed=seed)
    else:
        like_bundle = bundle_of(like, benchmark or bundle.name)
        like_draw = read_draw(like_bundle.path.parent)
        if like_draw is None:
            raise UsageError(f"no rows of {like} are drawn", hint=f"nel judge sample {like}")
        draw = draw_like(rows, read_judged(like_bundle), like_draw)
    draw.save(folder)
    corrected, labels_alone = expected_widths(rows, len(draw.rows))
    facts = {
        "folder": str(folder),
        "method": draw.method,
        "seed": draw.seed,
        "drawn": len(draw.rows),
    }
    if as_json:
        click.echo(
            dumps(
                {
                    **facts,
                    "rows": len(rows),
                    "half_width": corrected,
                    "half_width_labels_alone": labels_alone,
                }
            )
        )
        return
    click.echo(
        f"{bundle.name}: {len(draw.rows):,} of {len(rows):,} rows drawn ({draw.method}, seed {draw.seed})"
    )
    widths = f"±{corrected:.3f} with a usual judge, ±{labels_alone:.3f} by labels alone"
    click.echo(f"the corrected score will be known to about {widths}")
    click.echo(f"next: nel judge label {run}, or label them in the viewer")


_WORDS: dict[str, Verdict] = {"r": "right", "w": "wrong", "u": "unsure"}


@click.command()
@click.argument("run", shell_complete=run_ids)
@option(
    "--who", default="", show_default=False, help="Your name or initials, stored with each label."
)
@option("--benchmark", help="Benchmark of RUN to use [default: the only one].")
def label(run: str, who: str, benchmark: str | None) -> None:
    """Label the drawn rows of RUN. nel saves every label immediately; run the command again to continue.

    The judge's verdict is not shown, so that it cannot sway you.
    """
    bundle = bundle_of(run, benchmark)
    folder = bundle.path.parent
    draw = read_draw(folder)
    if draw is None:
        raise UsageError(f"no rows of {folder} are drawn", hint=f"nel judge sample {run}")
    low, high = read_judged(bundle).scale
    labels = read_labels(folder)
    rows_by_key = {
        row.key: row
        for row in bundle.rows()
        if row.key in {drawn_row.key for drawn_row in draw.rows}
    }
    unlabelled = [
        drawn_row.key
        for drawn_row in draw.rows
        if drawn_row.key not in labels and drawn_row.key in rows_by_key
    ]
    click.echo(
        f"{counted(len(draw.rows) - len(unlabelled), 'row')} labelled, {len(unlabelled):,} to go"
    )
    position = 0
    while position < len(unlabelled):
        row = rows_by_key[unlabelled[position]]
        if row.expected not in (None, ""):
            reference = f"\n--- reference\n{row.expected}"
        else:
            reference = ""
        row_text = f"--- prompt\n{row.prompt}\n--- answer\n{row.response}{reference}"
        click.echo(harmless(f"\n=== {position + 1} of {len(unlabelled)}\n{row_text}\n"))
        reply = _asked(low, high)
        if reply == "q":
            break
        if reply == "b":
            position = max(position - 1, 0)
            continue
        if reply != "s":
            explicit_verdict = _WORDS.get(reply)
            if explicit_verdict is not None:
                reward: float | None = None
            else:
                reward = (float(reply) - low) / (high - low)
            verdict: Verdict = explicit_verdict or (
                "right" if reward is not None and reward >= 0.5 else "wrong"
            )
            append_label(folder, Label(*unlabelled[position], verdict, who=who, reward=reward))
        position += 1
    remaining = sum(key not in read_labels(folder) for key in unlabelled)
    click.echo(
        f"saved; {counted(remaining, 'row')} to go"
        if remaining
        else f"all rows are labelled: nel judge calibrate {run}"
    )


def _asked(low: float, high: float) -> str:
    """Ask for a label at the terminal until the reply is valid; returns a letter or a grade."""
    has_grades = high - low > 1
    grade_text = f", a grade from {low:g} to {high:g}" if has_grades else ""
    while True:
        reply: str = click.prompt(
            f"[r]ight, [w]rong, [u]nsure{grade_text}, [s]kip, [b]ack, [q]uit", prompt_suffix=" > "
        )
        reply = reply.strip().lower()
        if reply[:1] in (*_WORDS, "s", "b", "q"):
            return reply[0]
        try:
            if has_grades and low <= float(reply) <= high:
                return reply
        except ValueError:
            pass
        click.echo(f"{reply!r} is none of these")


@click.command("calibrate")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", shell_complete=run_ids)
@option(
    "--labels",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Read labels from a .csv or .jsonl file: problem_idx, repeat, and label (right, wrong, unsure) or grade.",
)
@option(
    "--convenience",
    is_flag=True,
    help="Also use labels on rows that were not drawn; the result is marked.",
)
@option("--from", "source", metavar="RUN", help="Apply that run's calibration (Rogan-Gladen).")
@option("--benchmark", help="Benchmark of RUN to use [default: the only one].")
@option("--json", "as_json", is_flag=True, help="Output JSON.")
def calibrate_runs(
    runs: tuple[str, ...],
    file: Path | None,
    convenience: bool,
    source: str | None,
    benchmark: str | None,
    as_json: bool,
) -> None:
    """Compare the judge of each RUN with its labels: agreement, bias, and the corrected score with its interval.

    The result is kept in the run's bundle; reports and exports show it until the judge changes.
    """
    if (file is not None or source is not None) and (
        len(runs) > 1 or (file is not None and source is not None)
    ):
        raise UsageError("--labels and --from are for one run, one of them at a time")
    reports: list[CalibrationReport] = []
    for run in runs:
        reports.append(
            _one(bundle_of(run, benchmark), file, convenience, source=source, benchmark=benchmark)
        )
    for report in reports:
        report.save()
    documents = [report.to_dict() for report in reports]
    if as_json:
        click.echo(dumps(documents[0] if len(documents) == 1 else documents))
    else:
        # Imported only here: sampling and labelling need no templates.
        from nemo_evaluator.reports.texts import calibrations_text  # noqa: PLC0415 - not for JSON

        click.echo(calibrations_text(reports), nl=False)


def _one(
    run: Bundle, file: Path | None, convenience: bool, source: str | None, benchmark: str | None
) -> CalibrationReport:
    """Calibrate one run, by its own labels, those of a file, or another run's calibration."""
    if source is not None:
        return carry(run, bundle_of(source, benchmark or run.name))
    folder = run.path.parent
    labels = read_labels(folder)
    draw = read_draw(folder)
    if file is not None:
        rows = read_judged(run)
        imported_labels = read_label_file(file, rows.scale)
        draw = draw or read_draw(file.parent)
        check_draw(rows, imported_labels, draw, convenience=convenience)
        if not convenience and draw is not None:
            draw.save(folder)
            for imported_label in imported_labels.values():
                append_label(folder, imported_label)
        labels |= imported_labels
    if not labels:
        raise UsageError(
            f"{run.name} has no labels", hint="nel judge sample RUN, then nel judge label RUN"
        )
    return calibrate(run, labels, draw, convenience=convenience)
