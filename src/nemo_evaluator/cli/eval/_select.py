"""How a run is named on the command line."""

import functools
from collections.abc import Callable
from typing import Any

import click

from nemo_evaluator.cli._complete import run_ids
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.executors.base import executor_of
from nemo_evaluator.store.runs import find_run


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--run-id`` and ``--output-dir`` to a command."""
    command = click.option("--output-dir", "-o", help="Output folder of the run (default: ./eval_results).")(command)
    return click.option(
        "--run-id", "-r", shell_complete=run_ids, help="Id of the run, or its beginning; see `nel eval runs`."
    )(command)


def with_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Call a command with the ``run`` that its argument RUN (an id, its beginning, or a folder) or an option names.

    With ``--shard`` that is one of its shards.
    """

    @functools.wraps(command)
    def found(
        *args: Any, which: str | None, run_id: str | None, output_dir: str | None, shard: int | None, **more: Any
    ) -> Any:
        if sum(word is not None for word in (which, run_id, output_dir)) > 1:
            raise UsageError("name the run once", hint="give RUN, --run-id or --output-dir")
        run = find_run(which or run_id, output_dir)
        return command(*args, run=run if shard is None else executor_of(run.executor).shard(run, shard), **more)

    found = click.option("--shard", "-s", type=click.IntRange(0), metavar="I", help="Only shard I of the run.")(found)
    return click.argument("which", metavar="[RUN]", required=False, shell_complete=run_ids)(run_options(found))
