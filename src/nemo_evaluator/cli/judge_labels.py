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
    """The only finished benchmark of a run (a folder, a bundle or an id), or the one that is named."""
    if Path(run).exists():
        path: Path | str = Path(run)
    else:
        path = find_run(run).output_dir
    found = [one for one in find_runs(Path(path)) if benchmark in (None, one.name)]
    if len(found) != 1:
        names = ", ".join(sorted(one.name for one in found)) or "none"
        raise UsageError(
            f"{run} holds {len(found)} finished benchmarks ({names})",
            hint="choose with --benchmark NAME",
        )
    return found[0]


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
        other = bundle_of(like, benchmark or bundle.name)
        theirs = read_draw(other.path.parent)
        if theirs is None:
            raise UsageError(f"no rows of {like} are drawn", hint=f"nel judge sample {like}")
        draw = draw_like(rows, read_judged(other), theirs)
    draw.save(folder)
    corrected, alone = expected_widths(rows, len(draw.rows))
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
                    "half_width_labels_alone": alone,
                }
            )
        )
        return
    click.echo(
        f"{bundle.name}: {len(draw.rows):,} of {len(rows):,} rows drawn ({draw.method}, seed {draw.seed})"
    )
    known = f"±{corrected:.3f} with a usual judge, ±{alone:.3f} by labels alone"
    click.echo(f"the corrected score will be known to about {known}")
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
    done = read_labels(folder)
    texts = {row.key: row for row in bundle.rows() if row.key in {drawn.key for drawn in draw.rows}}
    todo = [drawn.key for drawn in draw.rows if drawn.key not in done and drawn.key in texts]
    click.echo(f"{counted(len(draw.rows) - len(todo), 'row')} labelled, {len(todo):,} to go")
    at = 0
    while at < len(todo):
        row = texts[todo[at]]
        if row.expected not in (None, ""):
            expected = f"\n--- reference\n{row.expected}"
        else:
            expected = ""
        shown = f"--- prompt\n{row.prompt}\n--- answer\n{row.response}{expected}"
        click.echo(harmless(f"\n=== {at + 1} of {len(todo)}\n{shown}\n"))
        said = _asked(low, high)
        if said == "q":
            break
        if said == "b":
            at = max(at - 1, 0)
            continue
        if said != "s":
            word = _WORDS.get(said)
            if word is not None:
                reward: float | None = None
            else:
                reward = (float(said) - low) / (high - low)
            named: Verdict = word or ("right" if reward is not None and reward >= 0.5 else "wrong")
            append_label(folder, Label(*todo[at], named, who=who, reward=reward))
        at += 1
    left = sum(key not in read_labels(folder) for key in todo)
    click.echo(
        f"saved; {counted(left, 'row')} to go"
        if left
        else f"all rows are labelled: nel judge calibrate {run}"
    )


def _asked(low: float, high: float) -> str:
    graded = high - low > 1
    grade = f", a grade from {low:g} to {high:g}" if graded else ""
    while True:
        said: str = click.prompt(
            f"[r]ight, [w]rong, [u]nsure{grade}, [s]kip, [b]ack, [q]uit", prompt_suffix=" > "
        )
        said = said.strip().lower()
        if said[:1] in (*_WORDS, "s", "b", "q"):
            return said[0]
        try:
            if graded and low <= float(said) <= high:
                return said
        except ValueError:
            pass
        click.echo(f"{said!r} is none of these")


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
    found: list[CalibrationReport] = []
    for run in runs:
        found.append(
            _one(bundle_of(run, benchmark), file, convenience, source=source, benchmark=benchmark)
        )
    for report in found:
        report.save()
    documents = [report.to_dict() for report in found]
    if as_json:
        click.echo(dumps(documents[0] if len(documents) == 1 else documents))
    else:
        # By name: drawing and labelling need no templates.
        from nemo_evaluator.reports.texts import calibrations_text  # noqa: PLC0415 - not for JSON

        click.echo(calibrations_text(found), nl=False)


def _one(
    run: Bundle, file: Path | None, convenience: bool, source: str | None, benchmark: str | None
) -> CalibrationReport:
    if source is not None:
        return carry(run, bundle_of(source, benchmark or run.name))
    folder = run.path.parent
    labels = read_labels(folder)
    draw = read_draw(folder)
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
        raise UsageError(
            f"{run.name} has no labels", hint="nel judge sample RUN, then nel judge label RUN"
        )
    return calibrate(run, labels, draw, convenience=convenience)
