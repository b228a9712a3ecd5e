"""``nel report``, ``nel eval report`` and ``nel export``: finished runs as documents, or sent to a tracker."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from nemo_evaluator.cli._options import PATH, option, say
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.exporters import export_bundles
from nemo_evaluator.launcher.jobs import run_of
from nemo_evaluator.reports import RENDERERS, SUFFIXES, load_report, render, write_reports
from nemo_evaluator.reports.formats import WANTS_ROWS
from nemo_evaluator.store.legacy import convert_legacy
from nemo_evaluator.store.lock import ensure_free
from nemo_evaluator.store.runs import find_run
from nemo_evaluator.store.sums import update_sums

_FORMATS = click.Choice(list(RENDERERS))


def _show(paths: Sequence[Path], fmt: str, output: Path | None) -> None:
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
    say(f"written: {target}\nrows in a browser: nel view {paths[0]}")


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename2 or error.filename or target
        raise UsageError(f"cannot write {place}: {error.strerror}", hint="give another place with -o") from error


@click.command("report")
@click.argument("paths", nargs=-1, required=True, type=PATH)
@option("--format", "-f", "fmt", type=_FORMATS, default="markdown")
@option("--output", "-o", type=PATH, help="Write to this file, or into this folder.")
def report(paths: tuple[Path, ...], fmt: str, output: Path | None) -> None:
    """Report on bundles: files, or folders that are searched for them."""
    _show(paths, fmt, output)


@click.command("report")
@click.argument("results_dir", required=False, type=PATH)
@option("--run-id", "-r", help="Id of the run instead of its folder; see `nel eval runs`.")
@option("--format", "-f", "fmt", type=_FORMATS, help="[default: markdown]")
@option("--output", "-o", type=PATH, help="A file or a folder; with --all-formats a folder.")
@option("--all-formats", is_flag=True, help="Write report.{md,html,csv,json,tex}.")
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
    if not all_formats:
        _show([folder], fmt or "markdown", output)
        return
    target = output or Path()
    convert_legacy(folder)
    ensure_free(target)
    with _writing(target):
        written = write_reports(target, RENDERERS, paths=[folder])
    say("\n".join(f"written: {path}" for path in written))


def read_settings(name: str, file: Path | None, overrides: tuple[str, ...]) -> dict[str, Any]:
    """The settings of an exporter: the file's part under its name (or the whole file), then ``key=value`` over it."""
    settings: dict[str, Any] = {}
    if file is not None:
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise UsageError(f"cannot read {file}: {error}") from error
        if not isinstance(content, dict):
            raise UsageError(f"{file} is not a mapping of settings")
        content = content["export"] if isinstance(content.get("export"), dict) else content
        settings = dict(content[name]) if isinstance(content.get(name), dict) else content
    for override in overrides:
        # A launcher's override names the exporter as well.
        key, equals, text = override.lstrip("+").removeprefix(f"export.{name}.").partition("=")
        if not equals or not key:
            raise UsageError(f"{override!r} is not key=value")
        try:
            settings[key] = orjson.loads(text)
        except orjson.JSONDecodeError:
            settings[key] = text
    return settings


@click.command("export")
@click.argument("names", metavar="PATH|ID...", nargs=-1, required=True)
@option("--dest", "-d", "name", required=True, help="inspect, mlflow, wandb, or one of an installed package.")
@option("--override", "-o", "overrides", multiple=True, metavar="KEY=VALUE", help="A setting; the value as JSON.")
@option("--config", "-c", "file", type=PATH, help="Settings as YAML or JSON.")
@option("--output-dir", type=PATH, help="Where files go; default: beside the bundles.")
def export(
    names: tuple[str, ...], name: str, overrides: tuple[str, ...], file: Path | None, output_dir: Path | None
) -> None:
    """Send finished runs to a tracker: bundle files, folders that are searched for them, or ids of runs."""
    paths = [Path(one) if Path(one).exists() else Path(run_of(one)[0].output_dir) for one in names]
    for path in paths:
        convert_legacy(path)
    for place in export_bundles(name, paths, read_settings(name, file, overrides), output_dir=output_dir):
        click.echo(place)
