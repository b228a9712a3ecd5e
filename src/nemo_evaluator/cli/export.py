"""``nel export``: send finished runs to a tracker."""

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson
import yaml

from nemo_evaluator.cli._invalid import warn_invalid
from nemo_evaluator.cli._options import PATH, option, run_ids
from nemo_evaluator.cli._runs import folder_of
from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.exporters import export_bundles
from nemo_evaluator.launcher.jobs import run_of
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.store.legacy import convert_legacy

# The launcher's folder for local exports.
_LOCAL_FOLDER: Final = "nemo-evaluator-launcher-results"


def read_settings(name: str, file: Path | None, overrides: tuple[str, ...]) -> dict[str, Any]:
    """Read the settings of an exporter.

    Args:
        name: The exporter.
        file: File with settings, either of this exporter only or by exporter; None: no file.
        overrides: ``key=value`` pairs, which override the file.

    Raises:
        UsageError: If the file or an override cannot be parsed.
    """
    settings: dict[str, Any] = {}
    if file is not None:
        try:
            content = load_yaml(file.read_bytes())
        except (OSError, yaml.YAMLError) as error:
            raise UsageError(f"cannot read {file}: {error}") from error
        if not isinstance(content, dict):
            raise UsageError(f"{file} is not a mapping of settings")
        if isinstance(content.get("export"), dict):
            content = content["export"]
        if isinstance(content.get(name), dict):
            settings = dict(content[name])
        else:
            settings = content
    for override in overrides:
        # An override in the launcher's form also names the exporter.
        key, separator, text = override.lstrip("+").removeprefix(f"export.{name}.").partition("=")
        if not separator or not key:
            raise UsageError(f"{override!r} is not key=value")
        try:
            settings[key] = orjson.loads(text)
        except orjson.JSONDecodeError:
            settings[key] = text
    return settings


@dataclass(frozen=True, slots=True)
class _ExportFlags:
    """The options of ``nel export``, by the names that click gives them; their help texts describe them."""

    name: str
    overrides: tuple[str, ...]
    file: Path | None
    output_dir: Path | None
    form: str | None
    output_filename: str | None
    log_metrics: tuple[str, ...]
    job_dirs: tuple[Path, ...]
    copy_logs: bool
    copy_artifacts: bool
    only_required: bool | None

    def settings(self) -> dict[str, Any]:
        """Return the settings of the exporter: those of the file, then of the flags, then of the overrides.

        Raises:
            UsageError: If the file or an override cannot be parsed.
        """
        settings = read_settings(self.name, self.file, ())
        flags: dict[str, Any] = {
            "format": self.form,
            "output_filename": self.output_filename,
            "log_metrics": list(self.log_metrics) or None,
            "copy_logs": self.copy_logs or None,
            "copy_artifacts": self.copy_artifacts or None,
            "only_required": self.only_required,
        }
        if self.name == "local":
            settings.setdefault("output_dir", _LOCAL_FOLDER)
            flags["output_dir"] = self.output_dir and str(self.output_dir)
        for key, value in flags.items():
            if value is not None:
                settings[key] = value
        return settings | read_settings(self.name, None, self.overrides)


@click.command("export")
@click.argument("names", metavar="PATH|ID...", nargs=-1, required=True, shell_complete=run_ids)
@option(
    "--dest",
    "-d",
    "name",
    default="local",
    show_default=True,
    help="Exporter: local (JSON or CSV files), inspect, mlflow, wandb, or one from an installed package.",
)
@option(
    "--override",
    "-o",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set one exporter setting; VALUE is JSON; repeatable.",
)
@option(
    "--config", "-c", "file", type=PATH, help="File with the exporter's settings (YAML or JSON)."
)
@option(
    "--output-dir",
    "-out",
    type=PATH,
    help="Folder for written files [default: next to the bundles; local: nemo-evaluator-launcher-results].",
)
@option("--format", "form", type=click.Choice(["json", "csv"]), help="Format of local files.")
@option("--output-filename", "-fname", metavar="NAME", help="Name of local files.")
@option(
    "--log-metrics",
    multiple=True,
    metavar="TEXT",
    help="Export only metrics with this text in their name; repeatable.",
)
@option(
    "--job-dirs",
    multiple=True,
    type=PATH,
    metavar="DIR",
    help="Folder to search for runs that this machine has no record of; repeatable.",
)
@option("--copy-logs", is_flag=True, help="Also send the logs of the run.")
@option("--copy-artifacts", is_flag=True, help="Also send the bundles and results.")
@option(
    "--only-required/--all-files",
    default=None,
    help="Of the files, send only the bundle and the results, or all.",
)
def export(names: tuple[str, ...], **flags: Any) -> None:
    """Send finished runs to a tracker, or write their metrics to files.

    PATH is a bundle file, or a folder to search for bundles; ID is the id of a run or job.
    """
    options = _ExportFlags(**flags)
    paths = [_run_path(name, options.job_dirs) for name in names]
    for path in paths:
        convert_legacy(path)
    warn_invalid([load_bundle(path) for path in find_bundles(paths)])
    destinations = export_bundles(
        options.name, paths, options.settings(), output_dir=options.output_dir
    )
    for destination in destinations:
        click.echo(destination)


def _run_path(name: str, job_dirs: Sequence[Path]) -> Path:
    """Return the path of a run, which may be given by its id.

    Args:
        name: A path, or the id of a run or job.
        job_dirs: Folders with runs that this machine has no record of.

    Raises:
        UsageError: There is no such path and no such run.
    """
    path = folder_of(name)
    if path.exists():
        return path
    invocation, _, number = name.partition(".")
    for folder in job_dirs:
        for run_folder in sorted(folder.glob(f"*{glob.escape(invocation)}*")):
            jobs = sorted(run_folder.glob(f"*.{number}")) if number.isdecimal() else []
            if run_folder.is_dir():
                return jobs[0] if jobs else run_folder
    # Raises the error about unknown ids.
    run, _ = run_of(name)
    return Path(run.output_dir)
