"""``nel canary``: run a few problems of each benchmark and give a verdict."""

import sys
from dataclasses import asdict

import click

from nemo_evaluator.assistant.canary import canary_text, run_canary
from nemo_evaluator.cli._options import FILE, config_files, option
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.executors.request import RunRequest


@click.command()
@click.argument("config_file", metavar="CONFIG", type=FILE, shell_complete=config_files)
@option("--limit", type=click.IntRange(1), default=10, help="Problems per benchmark.")
@option(
    "--override", "-O", multiple=True, metavar="KEY=VALUE", help="Set a config value; repeatable."
)
@option(
    "--env-file", type=FILE, help="File with NAME=VALUE lines [default: .env next to the config]."
)
@option("--json", "as_json", is_flag=True, help="Output JSON.")
@click.pass_context
def canary(
    ctx: click.Context,
    config_file: str,
    limit: int,
    override: tuple[str, ...],
    env_file: str | None,
    as_json: bool,
) -> None:
    """Run a few problems of each benchmark into OUTPUT_DIR-canary and report whether to start the whole run.

    Exit codes: 0 PASS, 1 config error, 3 FAIL with its causes, 130 interrupted.
    """
    command = tuple(masked_arguments(sys.argv[1:]))
    report = run_canary(
        RunRequest(config_file, override=override, env_file=env_file, command=command), limit
    )
    if as_json:
        text = dumps({"verdict": report.verdict} | asdict(report)).decode()
    else:
        text = canary_text(report)
    click.echo(scrub(harmless(text)))
    ctx.exit(report.exit_code)
