"""The options by which a run is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def run_selectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--run-id`` and ``--output-dir`` to a command."""
    command = click.option("--output-dir", "-o", help="Output folder of the run (default: ./eval_results).")(command)
    return click.option("--run-id", "-r", help="Id of the run; see `nel eval runs`.")(command)
