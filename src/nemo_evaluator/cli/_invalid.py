"""Warnings about INVALID benchmarks and damaged files, for commands that use rows without giving a verdict."""

from collections.abc import Iterable
from pathlib import Path

import click

from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.store.sealed import damage_below
from nemo_evaluator.store.sums import damaged_files


def warn_invalid(bundles: Iterable[Bundle]) -> None:
    """Warn on stderr about benchmarks that are INVALID, with the reasons."""
    for bundle in bundles:
        if bundle.invalid:
            click.echo(harmless(f"{bundle.name} is INVALID: {'; '.join(bundle.invalid)}"), err=True)


def warn_damaged(folder: Path) -> None:
    """Warn on stderr about damaged files at or under a folder: wrong digests, and journals with damaged records."""
    for text in damaged_files(folder):
        click.echo(harmless(text), err=True)
    for damage in damage_below(folder):
        click.echo(harmless(str(damage)), err=True)
