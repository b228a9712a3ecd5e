"""``nel version``."""

from __future__ import annotations

import click

from nemo_evaluator._version import __version__


@click.command("version")
def version() -> None:
    """Print the version."""
    click.echo(f"nemo_evaluator: {__version__}")
