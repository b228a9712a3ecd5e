"""``nel eval logs``: show the log of a run."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path

import click

from nemo_evaluator.cli.eval._select import run_selectors
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.console import LOG
from nemo_evaluator.executors.detach import running_pid
from nemo_evaluator.store.runs import find_run


@click.command()
@run_selectors
@click.option("--follow", "-f", is_flag=True, help="Go on printing until the run ends.")
@click.option("--lines", "-n", type=click.IntRange(1), help="Only the last N lines.")
def logs(run_id: str | None, output_dir: str | None, follow: bool, lines: int | None) -> None:
    """Print a run's log."""
    meta = find_run(run_id, output_dir)
    path = Path(meta.output_dir) / LOG
    if not path.is_file():
        raise UsageError(f"{path} does not exist", hint="the run has not said anything yet")
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in deque(file, maxlen=lines):
            click.echo(harmless(line), nl=False)
        while follow:
            line = file.readline()
            if line:
                click.echo(harmless(line), nl=False)
            elif running_pid(meta) is None:
                return
            else:
                time.sleep(0.2)
