"""``nel export``: send finished runs to a tracker."""

from pathlib import Path
from typing import Any

import click
import orjson
import yaml

from nemo_evaluator.cli._invalid import warn_invalid
from nemo_evaluator.cli._options import PATH, option
from nemo_evaluator.core.bounded_yaml import load_yaml
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.exporters import export_bundles
from nemo_evaluator.launcher.jobs import run_of
from nemo_evaluator.runs.bundle import load_bundle
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.store.legacy import convert_legacy


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


@click.command("export")
@click.argument("names", metavar="PATH|ID...", nargs=-1, required=True)
@option(
    "--dest",
    "-d",
    "name",
    required=True,
    help="Exporter: inspect, mlflow, wandb, or one from an installed package.",
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
@option("--output-dir", type=PATH, help="Folder for written files [default: next to the bundles].")
def export(
    names: tuple[str, ...],
    name: str,
    overrides: tuple[str, ...],
    file: Path | None,
    output_dir: Path | None,
) -> None:
    """Send finished runs to a tracker. PATH is a bundle file, a folder to search for bundles, or a run id."""
    paths: list[Path] = []
    for run_name in names:
        path = Path(run_name)
        if not path.exists():
            run, _ = run_of(run_name)
            path = Path(run.output_dir)
        paths.append(path)
    for path in paths:
        convert_legacy(path)
    warn_invalid([load_bundle(path) for path in find_bundles(paths)])
    settings = read_settings(name, file, overrides)
    for destination in export_bundles(name, paths, settings, output_dir=output_dir):
        click.echo(destination)
