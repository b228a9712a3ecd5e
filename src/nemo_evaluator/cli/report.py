"""``nel report`` and ``nel eval report``: finished runs as markdown, html, csv, json or latex."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.reports import RENDERERS, SUFFIXES, load_report, render, write_reports
from nemo_evaluator.reports.formats import WANTS_ROWS
from nemo_evaluator.store.legacy import convert_legacy
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.runs import find_run
from nemo_evaluator.store.sums import update_sums

_FORMATS = click.Choice(list(RENDERERS))


def show_report(paths: Sequence[Path], fmt: str, output: Path | None) -> None:
    """Print one report, or write it to a file; what is said about it goes to stderr, so stdout stays parsable."""
    for path in paths:
        convert_legacy(path)
    text = render(load_report(paths, rows=fmt in WANTS_ROWS), fmt)
    if output is None:
        click.echo(text, nl=False)
        return
    target = output / f"report.{SUFFIXES[fmt]}" if output.is_dir() else output
    ensure_free(target.parent)
    with _writing(target):
        write_atomic(target, text)
        update_sums(target.parent, [target])
    click.echo(f"written: {target}", err=True)
    click.echo(f"rows in a browser: nel view {paths[0]}", err=True)


def show_all(paths: Sequence[Path], folder: Path) -> None:
    """Write the report in every format into a folder."""
    for path in paths:
        convert_legacy(path)
    ensure_free(folder)
    with _writing(folder):
        written = write_reports(folder, RENDERERS, paths=paths)
    for path in written:
        click.echo(f"written: {path}", err=True)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename2 or error.filename or target
        raise UsageError(f"cannot write {place}: {error.strerror}", hint="give another place with -o") from error


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "-f", "fmt", type=_FORMATS, default="markdown", show_default=True)
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Write to this file, or into this folder.")
def report(paths: tuple[Path, ...], fmt: str, output: Path | None) -> None:
    """Report on bundles: files, or folders that are searched for them."""
    show_report(paths, fmt, output)


@click.command("report")
@click.argument("results_dir", required=False, type=click.Path(path_type=Path))
@click.option("--run-id", "-r", help="Id of the run instead of its folder; see `nel eval runs`.")
@click.option("--format", "-f", "fmt", type=_FORMATS, help="[default: markdown]")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="A file or a folder; with --all-formats a folder."
)
@click.option("--all-formats", is_flag=True, help="Write report.{md,html,csv,json,tex}.")
def eval_report(
    results_dir: Path | None, run_id: str | None, fmt: str | None, output: Path | None, all_formats: bool
) -> None:
    """Report on a finished run: its folder (default ./eval_results) or its id."""
    if results_dir is not None and run_id is not None:
        raise UsageError("give a folder or --run-id, not both")
    if all_formats and fmt is not None:
        raise UsageError("give --format or --all-formats, not both")
    folder = Path(find_run(run_id).output_dir) if run_id is not None else results_dir or Path("eval_results")
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", hint="give the folder of a run, or --run-id; see `nel eval runs`")
    if all_formats:
        show_all([folder], output or Path())
    else:
        show_report([folder], fmt or "markdown", output)
