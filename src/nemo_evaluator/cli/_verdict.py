"""Printing decisions: the verdict in colour on a terminal, plain when piped or when ``NO_COLOR`` is set."""

from __future__ import annotations

import os
import re

import click

_COLOURS = {
    "PASS": "green",
    "GO": "green",
    "VALID": "green",
    "BLOCK": "red",
    "NO-GO": "red",
    "INVALID": "red",
    "WARN": "yellow",
    "DEGRADED": "yellow",
    "INCONCLUSIVE": "yellow",
}
_FIRST = re.compile(rf"^({'|'.join(map(re.escape, _COLOURS))})(?=  )", re.MULTILINE)


def echo_verdict(text: str) -> None:
    """Print text whose lines may start with a verdict."""
    styled = _FIRST.sub(lambda match: click.style(match[1], fg=_COLOURS[match[1]], bold=True), text)
    click.echo(styled, nl=False, color=False if os.environ.get("NO_COLOR") else None)
