"""The warning of commands that use a run's rows or scores and give no verdict of their own."""

from collections.abc import Iterable

import click

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.runs.bundle import Bundle


def warn_invalid(bundles: Iterable[Bundle]) -> None:
    """Warn on stderr about benchmarks that are INVALID, with the reasons."""
    for bundle in bundles:
        if bundle.invalid:
            click.echo(harmless(f"{bundle.name} is INVALID: {'; '.join(bundle.invalid)}"), err=True)
