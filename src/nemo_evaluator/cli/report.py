"""``nel report`` and ``nel eval report``: render finished runs as documents."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from nemo_evaluator.cli._options import PATH, option, say
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.reports import RENDERERS, SUFFIXES, load_report, render, write_reports
from nemo_evaluator.reports.formats import WANTS_ROWS
from nemo_evaluator.store.legacy import convert_legacy
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.run_registry import find_run
from nemo_evaluator.store.sums import update_sums

_FORMATS = click.Choice(list(RENDERERS))


def _show(paths: Sequence[Path], fmt: str, output: Path | None) -> None:
    """Render one report on several paths.

    It goes to stdout or to a file; the file is named on stderr, so that programs can parse stdout.
    """
    for path in paths:
        convert_legacy(path)
    text = render(load_report(paths, rows=fmt in WANTS_ROWS), fmt)
    if output is None:
        click.echo(text, nl=False)
        return
    if output.is_dir():
        target = output / f"report.{SUFFIXES[fmt]}"
    else:
        target = output
    ensure_free(target.parent)
    with _writing(target):
        write_atomic(target, text)
        update_sums(target.parent, [target])
    say(f"written: {target}\nrows in a browser: nel view {paths[0]}")


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Turn an error while a file is written into a UsageError that names the file."""
    try:
        yield
    except OSError as error:
        path = error.filename2 or error.filename or target
        raise UsageError(
            f"cannot write {path}: {error.strerror}", hint="give another place with -o"
        ) from error


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=PATH)
@option("--format", "-f", "fmt", type=_FORMATS, default="markdown")
@option("--output", "-o", type=PATH, help="Write the report to this file or into this folder.")
def report(paths: tuple[Path, ...], fmt: str, output: Path | None) -> None:
    """Render a report on bundles. PATH is a bundle file or a folder to search for bundles."""
    _show(paths, fmt, output)


@click.command("report")
@click.argument("results_dir", required=False, type=PATH)
@option("--run-id", "-r", help="Run id, instead of a folder; see `nel eval runs`.")
@option("--format", "-f", "fmt", type=_FORMATS, help="Format of the report [default: markdown].")
@option(
    "--output", "-o", type=PATH, help="Write to this file or folder; with --all-formats: a folder."
)
@option("--all-formats", is_flag=True, help="Write report.{md,html,csv,json,tex}.")
def eval_report(
    results_dir: Path | None,
    run_id: str | None,
    fmt: str | None,
    output: Path | None,
    all_formats: bool,
) -> None:
    """Render a report on a finished run, given by folder (default: ./eval_results) or by id."""
    if results_dir is not None and run_id is not None:
        raise UsageError("give a folder or --run-id, not both")
    if all_formats and fmt is not None:
        raise UsageError("give --format or --all-formats, not both")
    if run_id is not None:
        folder = Path(find_run(run_id).output_dir)
    else:
        folder = results_dir or Path("eval_results")
    if not folder.exists():
        raise UsageError(
            f"{folder} does not exist",
            hint="give the folder of a run, or --run-id; see `nel eval runs`",
        )
    if not all_formats:
        _show([folder], fmt or "markdown", output)
        return
    target = output or Path()
    convert_legacy(folder)
    ensure_free(target)
    with _writing(target):
        written = write_reports(target, RENDERERS, paths=[folder])
    say("\n".join(f"written: {path}" for path in written))
