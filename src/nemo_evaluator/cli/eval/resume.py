"""``nel eval resume``: go on with a run that stopped."""

import sys
from dataclasses import replace

import click

from nemo_evaluator.cli.eval._select import with_run
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.executors.request import resume_request
from nemo_evaluator.executors.start import start
from nemo_evaluator.store.runs import RunMeta, known_run


@click.command()
@with_run
@click.option("--background", is_flag=True, help="Run detached.")
@click.option("--json", "as_json", is_flag=True, help="Progress and result as JSON lines on stdout.")
@click.pass_context
def resume(ctx: click.Context, run: RunMeta, background: bool, as_json: bool) -> None:
    """Run the config of an earlier run again with --resume: finished answers are reused."""
    command = tuple(masked_arguments(sys.argv[1:]))
    only = run.details.get("only_shard")
    if isinstance(only, int):
        # Its executor starts it, as a part of the whole.
        run = known_run(run.run_id)
    request = resume_request(run, background=background, as_json=as_json, command=command)
    ctx.exit(start(replace(request, only_shard=only) if isinstance(only, int) else request))
