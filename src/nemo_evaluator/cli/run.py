"""``nel run``: translate a config of the launcher and run it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nemo_evaluator.cli._options import FILE, PATH, config_files, option, say
from nemo_evaluator.core.arguments import masked_arguments
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.wording import counted

if TYPE_CHECKING:
    from nemo_evaluator.launcher.routes import Preference
    from nemo_evaluator.launcher.table import Translated


@dataclass(frozen=True, slots=True)
class _LauncherFlags:
    """The options of ``nel run``, by the names that click gives them; their help texts describe them."""

    file: Path
    config_mode: str
    override: tuple[str, ...]
    tasks: tuple[str, ...]
    dry_run: bool
    convert: Path | None
    containers: bool
    native: bool
    config_output: Path | None
    env_file: str | None
    wait: bool
    verbose: bool


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
@option(
    "--native",
    is_flag=True,
    help="Run nel's own benchmarks where there are any; their prompts and graders differ.",
)
@option("--config-output", metavar="DIR", type=PATH, help="Folder for the translated config.")
@option("--env-file", type=FILE, help="File with NAME=VALUE lines [default: .env, if it exists].")
@option("--wait", is_flag=True, help="Wait until the run ends, and exit with its exit code.")
@option("--verbose", "-v", is_flag=True, help="Print the outcome of every field.")
@click.pass_context
def run(ctx: click.Context, /, **flags: Any) -> None:
    """Run a config of the NeMo Evaluator Launcher: composed with Hydra, translated, then run by nel.

    A config in nel's own format, such as `nel init` writes, is run unchanged.

    The run continues in the background or as a SLURM job; manage it with `nel status`, `nel logs` and `nel kill`.
    """
    from nemo_evaluator.config.env_file import use_env_file  # noqa: PLC0415 - heavy, only for this command
    from nemo_evaluator.launcher.start import converted_text, is_own  # noqa: PLC0415

    options = _LauncherFlags(**flags)
    use_env_file(Path(), options.env_file)
    command = tuple(masked_arguments(sys.argv[1:]))
    if is_own(options.file.expanduser()):
        ctx.exit(_run_own(options, command))
    translated = _translate(options)
    text = converted_text(translated, str(options.file))
    if options.convert is not None:
        _write_converted(options.convert, text)
    else:
        ctx.exit(_run_translated(options, command, translated, text=text))


def _run_own(options: _LauncherFlags, command: tuple[str, ...]) -> int:
    """Run a config that is in nel's own format, and return the exit code."""
    from nemo_evaluator.launcher.start import start_own  # noqa: PLC0415 - heavy, only for this command

    launcher_flags = {
        "-t": options.tasks,
        "--convert": options.convert,
        "--containers": options.containers,
        "--native": options.native,
    }
    for flag, value in launcher_flags.items():
        if value:
            raise UsageError(
                f"{flag} is for configs of the launcher, and {options.file} is a config of nel",
                hint=f"leave out {flag}; `nel skills build-config` writes the launcher's format",
            )
    return start_own(
        options.file.expanduser(),
        options.override,
        command,
        dry_run=options.dry_run,
        wait=options.wait,
    )


def _translate(options: _LauncherFlags) -> Translated:
    """Compose and translate a config of the launcher, and print how its fields were translated.

    Raises:
        ConfigError: If the config cannot be translated.
    """
    from nemo_evaluator.launcher.compose import compose_launcher  # noqa: PLC0415 - heavy
    from nemo_evaluator.launcher.start import move_secrets  # noqa: PLC0415
    from nemo_evaluator.launcher.translate import translate  # noqa: PLC0415

    if options.containers and options.native:
        raise UsageError("--containers and --native exclude each other", hint="give one of them")
    prefer: Preference = "same"
    if options.native:
        prefer = "native"
    elif options.containers:
        prefer = "containers"
    composed = compose_launcher(
        options.file.expanduser(), options.override, raw=options.config_mode == "raw"
    )
    starts_nothing = options.dry_run or options.convert is not None
    translated = translate(composed, options.tasks, prefer=prefer, dry=starts_nothing)
    moved_variables = move_secrets(translated)
    if options.verbose:
        shown_outcomes = translated.report
    else:
        shown_outcomes = translated.of("warned")
    for outcome in shown_outcomes:
        say(scrub(f"{outcome.outcome}: {outcome.field}: {outcome.detail}"))
    translated.check(str(options.file))
    if moved_variables:
        variables = ", ".join(moved_variables)
        say(f"secrets of the config are references now; to resume it, set: {variables}")
    say(f"{counted(len(translated.of('translated')), 'field')} translated")
    return translated


def _write_converted(target: Path, text: str) -> None:
    """Write a translated config to a new file."""
    if target.exists():
        raise UsageError(f"{target} exists", hint="name another file; nothing is overwritten")
    target.write_text(text, encoding="utf-8")
    click.echo(f"Config written to: {target}")


def _run_translated(
    options: _LauncherFlags, command: tuple[str, ...], translated: Translated, *, text: str
) -> int:
    """Start a translated config, and return the exit code.

    Args:
        options: The options of the command.
        command: The command line, with secrets masked.
        translated: The config.
        text: The config as YAML.
    """
    from nemo_evaluator.launcher.start import start_translated  # noqa: PLC0415 - heavy

    return start_translated(
        translated,
        text,
        command,
        source=str(options.file),
        folder=options.config_output,
        dry_run=options.dry_run,
        wait=options.wait,
    )
