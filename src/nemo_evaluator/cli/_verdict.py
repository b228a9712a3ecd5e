"""Printing decisions: the verdict in colour on a terminal, plain when piped or when ``NO_COLOR`` is set."""

import math
import os

import click

from nemo_evaluator.core.terminal import coloured, harmless, terminal_width

__all__ = ["FORMATS", "echo_verdict", "finite", "terminal_width"]

# How a decision can be shown.
FORMATS = ["text", "markdown", "html", "json"]


def echo_verdict(text: str) -> None:
    """Print text whose lines may start with a verdict."""
    click.echo(coloured(harmless(text)), nl=False, color=False if os.environ.get("NO_COLOR") else None)


def finite(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """Refuses what is no number to decide by: every comparison with it would be false."""
    if not math.isfinite(value):
        raise click.BadParameter("a finite number is expected", context, parameter)
    return value
