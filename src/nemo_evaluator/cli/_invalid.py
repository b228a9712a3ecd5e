"""The warning about INVALID benchmarks, for commands that use rows or scores without giving a verdict."""

from collections.abc import Iterable

import click

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.runs.bundle import Bundle


def warn_invalid(bundles: Iterable[Bundle]) -> None:
    """Warn on stderr about benchmarks that are INVALID, with the reasons."""
    for bundle in bundles:
        if bundle.invalid:
            click.echo(harmless(f"{bundle.name} is INVALID: {'; '.join(bundle.invalid)}"), err=True)
