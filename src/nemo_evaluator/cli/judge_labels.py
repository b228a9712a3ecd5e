"""``nel judge sample``, ``label`` and ``calibrate``: human labels for a judge's verdicts, and the corrected score."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import click

from nemo_evaluator.cli._options import option, run_ids
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import JudgedRows, read_judged
from nemo_evaluator.decisions.calibrate.label_draw import (
    Method,
    draw_like,
    draw_rows,
    expected_widths,
)
from nemo_evaluator.decisions.calibrate.label_rules import check_draw
from nemo_evaluator.decisions.calibrate.report import (
    CalibrationReport,
    calibrate,
    carry,
    save_document,
)
from nemo_evaluator.runs.bundle import Bundle, uncalibrated
from nemo_evaluator.runs.calibration import LabelDraw, read_draw
from nemo_evaluator.runs.find import find_runs
from nemo_evaluator.runs.labels import (
    Label,
    Verdict,
    append_label,
    disputed_rows,
    read_label_file,
    read_labels,
)
from nemo_evaluator.runs.row import Row
from nemo_evaluator.store.run_registry import find_run


def bundle_of(run: str, benchmark: str | None = None) -> Bundle:
    """Return a finished benchmark of a run.

    Args:
        run: A folder, a bundle or a run id.
        benchmark: Name of the benchmark; None: the only one.

    Raises:
        UsageError: If not exactly one benchmark fits.
    """
    path = Path(run)
    if not path.exists():
        path = Path(find_run(run).output_dir)
    bundles = [bundle for bundle in find_runs(path) if benchmark in (None, bundle.name)]
    if len(bundles) != 1:
        names = ", ".join(sorted(bundle.name for bundle in bundles)) or "none"
        raise UsageError(
            f"{run} holds {len(bundles)} finished benchmarks ({names})",
            hint="choose with --benchmark NAME",
        )
    return bundles[0]


@dataclass(frozen=True, slots=True)
class _DrawOptions:
    """The options of ``nel judge sample``, by the names that click gives them; their help texts describe them."""

    labels: int
    method: Method
    like: str | None
    seed: int
    replace: bool
    benchmark: str | None
    as_json: bool


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
def sample(run: str, **flags: Any) -> None:
    """Draw rows of RUN for people to label, and estimate the width of the corrected interval.

    The draw is kept beside the rows (label_draw.json), each row with its probability.
    """
    options = _DrawOptions(**flags)
    bundle = bundle_of(run, options.benchmark)
    folder = bundle.path.parent
    if read_draw(folder) is not None and not options.replace:
        hint = f"nel judge label {run}, or draw a new sample with --replace"
        raise UsageError(f"rows of {folder} have already been drawn", hint=hint)
    rows = read_judged(bundle)
    draw = _draw(bundle, rows, options)
    if bundle.calibration is not None:
        # The corrected score rests on the earlier draw.
        save_document(uncalibrated(bundle))
    draw.save(folder)
    corrected, labels_alone = expected_widths(rows, len(draw.rows))
    if options.as_json:
        document = {
            "folder": str(folder),
            "method": draw.method,
            "seed": draw.seed,
            "drawn": len(draw.rows),
            "rows": len(rows),
            "half_width": corrected,
            "half_width_labels_alone": labels_alone,
        }
        click.echo(dumps(document))
        return
    _echo_draw(bundle, draw, len(rows))
    if bundle.calibration is not None:
        click.echo("the corrected score of the earlier draw was removed from the bundle")
    widths = f"±{corrected:.3f} with a usual judge, ±{labels_alone:.3f} by labels alone"
    click.echo(f"the corrected score will be known to about {widths}")
    click.echo(f"next: nel judge label {run}, or label them in the viewer")


def _echo_draw(bundle: Bundle, draw: LabelDraw, row_count: int) -> None:
    """Print how many of a benchmark's rows were drawn, and how."""
    drawn = f"{len(draw.rows):,} of {row_count:,} rows drawn"
    click.echo(f"{bundle.name}: {drawn} ({draw.method}, seed {draw.seed})")


def _draw(bundle: Bundle, rows: JudgedRows, options: _DrawOptions) -> LabelDraw:
    """Draw rows of a benchmark, by a method or like those of another run."""
    if options.like is None:
        return draw_rows(rows, options.labels, options.method, seed=options.seed)
    other_bundle = bundle_of(options.like, options.benchmark or bundle.name)
    other_draw = read_draw(other_bundle.path.parent)
    if other_draw is None:
        raise UsageError(
            f"no rows of {options.like} are drawn", hint=f"nel judge sample {options.like}"
        )
    return draw_like(rows, read_judged(other_bundle), other_draw)


_VERDICT_OF_LETTER: Final[dict[str, Verdict]] = {"r": "right", "w": "wrong", "u": "unsure"}
_SKIP: Final = "s"
_BACK: Final = "b"
_QUIT: Final = "q"


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
    scale = read_judged(bundle).scale
    unlabelled = _unlabelled_rows(bundle, draw)
    labelled_count = len(draw.rows) - len(unlabelled)
    click.echo(f"{counted(labelled_count, 'row')} labelled, {len(unlabelled):,} to go")
    position = 0
    while position < len(unlabelled):
        row = unlabelled[position]
        click.echo(harmless(f"\n=== {position + 1} of {len(unlabelled)}\n{_row_text(row)}\n"))
        reply = _ask_for_label(scale)
        if reply == _QUIT:
            break
        if reply == _BACK:
            position = max(position - 1, 0)
            continue
        if reply != _SKIP:
            append_label(folder, _label_of(row, reply, scale, who=who))
        position += 1
    labels = read_labels(folder)
    remaining = sum(row.key not in labels for row in unlabelled)
    if remaining:
        click.echo(f"saved; {counted(remaining, 'row')} to go")
    else:
        click.echo(f"all rows are labelled: nel judge calibrate {run}")


def _unlabelled_rows(bundle: Bundle, draw: LabelDraw) -> list[Row]:
    """The drawn rows that have no label yet, in the order of the draw."""
    labels = read_labels(bundle.path.parent)
    drawn_keys = [drawn_row.key for drawn_row in draw.rows]
    keys_to_label = set(drawn_keys) - set(labels)
    row_of_key: dict[tuple[int, int], Row] = {}
    for row in bundle.rows():
        if row.key in keys_to_label:
            row_of_key[row.key] = row
    return [row_of_key[key] for key in drawn_keys if key in row_of_key]


def _row_text(row: Row) -> str:
    """A row as people see it when they label it."""
    text = f"--- prompt\n{row.prompt}\n--- answer\n{row.response}"
    if row.expected not in (None, ""):
        text += f"\n--- reference\n{row.expected}"
    return text


def _label_of(row: Row, reply: str, scale: tuple[float, float], *, who: str) -> Label:
    """The label of a row that a reply stands for.

    Args:
        row: The row.
        reply: The letter of a verdict, or a grade.
        scale: The lowest and the highest grade.
        who: Who gave the label.
    """
    verdict = _VERDICT_OF_LETTER.get(reply)
    reward = None
    if verdict is None:
        low, high = scale
        reward = (float(reply) - low) / (high - low)
        verdict = "right" if reward >= 0.5 else "wrong"
    return Label(*row.key, verdict, who=who, reward=reward)


def _ask_for_label(scale: tuple[float, float]) -> str:
    """Ask for a label at the terminal until the reply is valid; returns a letter or a grade.

    Args:
        scale: The lowest and the highest grade; if they differ by 1, a grade is not offered.
    """
    low, high = scale
    has_grades = high - low > 1
    grade_text = f", a grade from {low:g} to {high:g}" if has_grades else ""
    question = f"[r]ight, [w]rong, [u]nsure{grade_text}, [s]kip, [b]ack, [q]uit"
    while True:
        reply: str = click.prompt(question, prompt_suffix=" > ")
        reply = reply.strip().lower()
        if reply[:1] in (*_VERDICT_OF_LETTER, _SKIP, _BACK, _QUIT):
            return reply[0]
        if has_grades and _is_grade(reply, scale):
            return reply
        click.echo(f"{reply!r} is none of these")


def _is_grade(reply: str, scale: tuple[float, float]) -> bool:
    """Whether a reply is a number on the scale."""
    low, high = scale
    try:
        return low <= float(reply) <= high
    except ValueError:
        return False


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
    for_one_run = file is not None or source is not None
    if (for_one_run and len(runs) > 1) or (file is not None and source is not None):
        raise UsageError("--labels and --from are for one run, one of them at a time")
    reports: list[CalibrationReport] = []
    for run in runs:
        bundle = bundle_of(run, benchmark)
        if source is not None:
            reports.append(carry(bundle, bundle_of(source, benchmark or bundle.name)))
        else:
            reports.append(_calibrated_by_labels(bundle, file, convenience=convenience))
    for report in reports:
        report.save()
    if as_json:
        documents = [report.to_dict() for report in reports]
        click.echo(dumps(documents[0] if len(documents) == 1 else documents))
    else:
        # Imported only here: sampling and labelling need no templates.
        from nemo_evaluator.reports.texts import calibrations_text  # noqa: PLC0415 - not for JSON

        click.echo(calibrations_text(reports), nl=False)


def _calibrated_by_labels(
    run: Bundle, file: Path | None, *, convenience: bool
) -> CalibrationReport:
    """Calibrate one run by its labels.

    Args:
        run: The run.
        file: A file with more labels; those on drawn rows are added to the run's labels.
        convenience: Also use labels on rows that were not drawn.
    """
    folder = run.path.parent
    labels = read_labels(folder)
    draw = read_draw(folder)
    notes: list[str] = []
    if file is not None:
        rows = read_judged(run)
        imported_labels = read_label_file(file, rows.scale)
        draw = draw or read_draw(file.parent)
        check_draw(rows, imported_labels, draw, convenience=convenience)
        if not convenience and draw is not None:
            draw.save(folder)
            _append_new(folder, imported_labels, labels)
        notes += _replaced_note(imported_labels, labels)
        labels |= imported_labels
    if not labels:
        raise UsageError(
            f"{run.name} has no labels", hint="nel judge sample RUN, then nel judge label RUN"
        )
    disputed = disputed_rows(folder)
    if disputed:
        first_problem, _ = disputed[0]
        rows_words = f"{counted(len(disputed), 'row')}, such as problem {first_problem}"
        notes.append(f"people disagree on {rows_words}: the last label counts")
    report = calibrate(run, labels, draw, convenience=convenience)
    report.notes.extend(notes)
    return report


def _append_new(
    folder: Path,
    imported_labels: dict[tuple[int, int], Label],
    labels: dict[tuple[int, int], Label],
) -> None:
    """Append those labels that the folder does not have yet, so that importing a file twice changes nothing."""
    for key, imported_label in imported_labels.items():
        present_label = labels.get(key)
        if present_label is None or not imported_label.agrees_with(present_label):
            append_label(folder, imported_label)


def _replaced_note(
    imported_labels: dict[tuple[int, int], Label], labels: dict[tuple[int, int], Label]
) -> list[str]:
    """The note about imported labels that contradict earlier ones."""
    replaced: list[Label] = []
    for key, imported_label in imported_labels.items():
        present_label = labels.get(key)
        if present_label is not None and not imported_label.agrees_with(present_label):
            replaced.append(imported_label)
    if not replaced:
        return []
    first = replaced[0]
    return [
        f"{counted(len(replaced), 'label')} of the file replaced a different one, such as problem {first.problem_idx}: "
        f"{labels[first.key].words} became {first.words}"
    ]
