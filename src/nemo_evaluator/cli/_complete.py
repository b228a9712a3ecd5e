"""What the shell offers after Tab."""

from __future__ import annotations

import importlib

import click


def benchmark_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The benchmarks whose name begins like this."""
    # By name: commands that take a benchmark must not load all of them to be listed.
    names: list[str] = importlib.import_module("nemo_evaluator.environments.registry").list_environments()
    return [name for name in names if name.startswith(incomplete)]
