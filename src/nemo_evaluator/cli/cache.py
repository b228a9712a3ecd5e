"""``nel cache``: inspect and prune the response cache."""

import json
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from nemo_evaluator.adapters.cache_store import clear_store, prune_store, store_stats
from nemo_evaluator.cli._options import JSON, PATH, option
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import cache_folder
from nemo_evaluator.core.wording import counted

_AGES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SIZES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _folder(context: click.Context, parameter: click.Parameter, given: Path | None) -> Path:
    """Return the given cache folder, or the user's own."""
    if given is not None:
        return given.expanduser()
    return cache_folder()


_DIR = option(
    "--dir",
    "folder",
    type=PATH,
    callback=_folder,
    help="Folder of the cache [default: your cache folder].",
)


@click.group()
def cache() -> None:
    """Inspect and prune the response cache of `proxy: {cache: write}` and of the `caching` interceptor."""


@cache.command()
@_DIR
@JSON
def stats(folder: Path, as_json: bool) -> None:
    """Show the number, size and age of the cached answers."""
    cache_stats = store_stats(folder)
    if as_json:
        click.echo(json.dumps(asdict(cache_stats) | {"path": str(cache_stats.path)}, indent=2))
        return
    click.echo(
        f"{cache_stats.path}: {counted(cache_stats.entries, 'answer')}, {cache_stats.bytes / 1e6:.1f} MB"
    )
    for model, count in cache_stats.models.items():
        click.echo(f"  {count:8}  {model}")
    if cache_stats.oldest is not None and cache_stats.newest is not None:
        dates: list[str] = []
        for timestamp in (cache_stats.oldest, cache_stats.newest):
            dates.append(time.strftime("%Y-%m-%d %H:%M", time.localtime(timestamp)))
        click.echo(f"  from {dates[0]} to {dates[1]}")


@cache.command()
@_DIR
@option("--older-than", metavar="AGE", help="Remove answers older than this: 12h, 30d, 4w.")
@option(
    "--max-size", metavar="SIZE", help="Remove the oldest answers until the rest fits: 500m, 2g."
)
@JSON
def prune(folder: Path, older_than: str | None, max_size: str | None, as_json: bool) -> None:
    """Remove old answers."""
    if older_than is None and max_size is None:
        raise UsageError(
            "nothing to prune by", hint="give --older-than 30d, --max-size 2g, or both"
        )
    if older_than:
        age: float | None = _amount(older_than, _AGES, "an age such as 12h or 30d")
    else:
        age = None
    if max_size:
        size: float | None = _amount(max_size, _SIZES, "a size such as 500m or 2g")
    else:
        size = None
    _removed(
        prune_store(folder, older_than=age, max_bytes=None if size is None else int(size)), as_json
    )


@cache.command()
@_DIR
@option("-y", "--yes", is_flag=True, help="Do not ask.")
@JSON
def clear(folder: Path, yes: bool, as_json: bool) -> None:
    """Remove every answer."""
    if not yes:
        click.confirm(f"remove all answers in {folder}?", abort=True)
    _removed(clear_store(folder), as_json)


def _removed(number: int, as_json: bool) -> None:
    click.echo(
        json.dumps({"removed": number}) if as_json else f"removed {counted(number, 'answer')}"
    )


def _amount(text: str, units: dict[str, int], wanted: str) -> float:
    amount_match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]?)b?", text.strip().lower())
    if amount_match is None or amount_match.group(2) not in units:
        raise UsageError(f"{text!r} is not {wanted}")
    return float(amount_match.group(1)) * units[amount_match.group(2)]
