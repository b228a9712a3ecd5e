"""Printing decisions: the verdict in colour on a terminal, plain when piped or when ``NO_COLOR`` is set."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys

import click

from nemo_evaluator.core.terminal import harmless

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
    styled = _FIRST.sub(lambda match: click.style(match[1], fg=_COLOURS[match[1]], bold=True), harmless(text))
    click.echo(styled, nl=False, color=False if os.environ.get("NO_COLOR") else None)


def terminal_width() -> int | None:
    """The width to break lines at: a terminal's, or ``COLUMNS``; None for a pipe, whose lines are left whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() or os.environ.get("COLUMNS") else None


def finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuses what is no number to decide by: every comparison with it would be false."""
    if not math.isfinite(value):
        raise click.BadParameter("a finite number is expected", context, parameter)
    return value
