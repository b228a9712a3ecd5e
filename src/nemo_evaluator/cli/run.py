"""``nel run``: translate a config of the launcher and run it."""

import sys
from pathlib import Path

import click

from nemo_evaluator.cli._options import FILE, PATH, config_files, option
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.wording import counted


@click.command("run")
@option("--config", "file", required=True, type=PATH, shell_complete=config_files,
              help="YAML config of the launcher.")  # fmt: skip
@option("--config-mode", type=click.Choice(["hydra", "raw"]), default="hydra",
              help="hydra: compose the config; raw: use the file as it is.")  # fmt: skip
@option(
    "--override",
    "-o",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change the config: a.b=v, +a.b=v, ++a.b=v or ~a.b; repeatable.",
)
@option(
    "--tasks",
    "-t",
    "--task",
    multiple=True,
    metavar="NAME",
    help="Run only this task (or NAME.INDEX); repeatable.",
)
@option(
    "--dry-run",
    "-n",
    is_flag=True,
    help="Translate and check the config and print the plan; start nothing.",
)
@option(
    "--convert",
    metavar="FILE",
    type=PATH,
    help="Write the translated config to FILE; start nothing.",
)
@option(
    "--containers",
    is_flag=True,
    help="Run every task in its harness's container, as the launcher does.",
)
@option("--config-output", metavar="DIR", type=PATH, help="Folder for the translated config.")
@option("--env-file", type=FILE, help="File with NAME=VALUE lines [default: .env, if it exists].")
@option("--wait", is_flag=True, help="Wait until the run ends, and exit with its exit code.")
@option("--verbose", "-v", is_flag=True, help="Print the outcome of every field.")
@click.pass_context
def run(
    ctx: click.Context,
    file: Path,
    config_mode: str,
    override: tuple[str, ...],
    tasks: tuple[str, ...],
    dry_run: bool,
    convert: Path | None,
    containers: bool,
    config_output: Path | None,
    env_file: str | None,
    wait: bool,
    verbose: bool,
) -> None:
    """Run a config of the NeMo Evaluator Launcher: composed with Hydra, translated, then run by nel.

    A config in nel's own format, such as `nel init` writes, is run unchanged.

    The run continues in the background or as a SLURM job; manage it with `nel status`, `nel logs` and `nel kill`.
    """
    from nemo_evaluator.config.env_file import use_env_file  # noqa: PLC0415 - heavy, only for this command
    from nemo_evaluator.launcher.compose import compose_launcher  # noqa: PLC0415
    from nemo_evaluator.launcher.start import (  # noqa: PLC0415
        converted_text,
        is_own,
        move_secrets,
        start_own,
        start_translated,
    )
    from nemo_evaluator.launcher.translate import translate  # noqa: PLC0415

    use_env_file(Path(), env_file)
    command = tuple(masked_arguments(sys.argv[1:]))
    if is_own(file.expanduser()):
        for flag, value in (("-t", tasks), ("--convert", convert), ("--containers", containers)):
            if value:
                reason = f"{flag} is for configs of the launcher, and {file} is one of nel"
                raise UsageError(reason, hint="leave it out")
        ctx.exit(start_own(file.expanduser(), override, command, dry_run=dry_run, wait=wait))
    composed = compose_launcher(file.expanduser(), override, raw=config_mode == "raw")
    is_dry = dry_run or convert is not None
    translated = translate(composed, tasks, containers=containers, dry=is_dry)
    moved_variables = move_secrets(translated)
    for outcome in translated.report if verbose else translated.of("warned"):
        click.echo(scrub(f"{outcome.outcome}: {outcome.field}: {outcome.detail}"), err=True)
    translated.check(str(file))
    if moved_variables:
        click.echo(
            f"secrets of the config are references now; to resume it, set: {', '.join(moved_variables)}",
            err=True,
        )
    click.echo(f"{counted(len(translated.of('translated')), 'field')} translated", err=True)
    text = converted_text(translated, str(file))
    if convert is not None:
        if convert.exists():
            raise UsageError(f"{convert} exists", hint="name another file; nothing is overwritten")
        convert.write_text(text, encoding="utf-8")
        click.echo(f"Config written to: {convert}")
        return
    ctx.exit(
        start_translated(
            translated,
            text,
            command,
            source=str(file),
            folder=config_output,
            dry_run=dry_run,
            wait=wait,
        )
    )
