"""``nel``: commands are listed in ``contents.txt`` and imported only when they are used."""

import gc
import importlib
import sys
from pathlib import Path
from typing import Any, Final

import click

from nemo_evaluator._version import __version__
from nemo_evaluator.core.arguments import hide_arguments
from nemo_evaluator.core.errors import EXIT_INTERRUPTED, NelError

# Objects made by imports live until the end: collecting garbage among them takes a tenth of the start-up time.
COLLECTIONS: Final = (500_000, 20, 100)


def _read_contents() -> dict[str, dict[str, tuple[str, str]]]:
    """Parse ``contents.txt``: for each section its commands, each with its module and function, and a line of help."""
    title = ""
    sections = dict[str, dict[str, tuple[str, str]]]()
    for line in Path(__file__).with_name("contents.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            name, target, help_line = line.split(maxsplit=2)
            sections[title][name] = target, help_line
        elif line and not line.startswith("#"):
            title = line
            sections[title] = {}
    return sections


CONTENTS: Final = _read_contents()


class LazyGroup(click.Group):
    """A group of commands that imports a command only when it is used.

    Args:
        args: Arguments of ``click.Group``.
        sections: Sections of ``contents.txt`` whose commands belong to the group; the help shows several separately.
        kwargs: Arguments of ``click.Group``.
    """

    def __init__(self, *args: Any, sections: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._sections = {title: CONTENTS[title] for title in sections}
        rows_by_command: dict[str, tuple[str, str]] = {}
        for section in self._sections.values():
            for name, row in section.items():
                rows_by_command[name] = row
        self._lazy = rows_by_command

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of ``contents.txt``."""
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is no such command."""
        if cmd_name in self._lazy and cmd_name not in self.commands:
            module, _, attribute = self._lazy[cmd_name][0].partition(":")
            command: click.Command = getattr(
                importlib.import_module(f"nemo_evaluator.cli.{module}"), attribute
            )
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; the error for an unknown one suggests what the user probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from nemo_evaluator.cli._errors import better_command  # noqa: PLC0415 - only when something went wrong

            suggestion = better_command(ctx.command_path, args[0], self.list_commands(ctx))
            if suggestion is None:
                raise
            raise click.UsageError(f"{error.message} Did you mean: {suggestion}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from ``contents.txt``, without importing any."""
        width = max(map(len, self._lazy))
        for title, rows in self._sections.items():
            with formatter.section(title if len(self._sections) > 1 else "Commands"):
                # Align the second column of all sections.
                formatter.write_dl(
                    [(name.ljust(width), help_line) for name, (_, help_line) in rows.items()]
                )


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import platform  # noqa: PLC0415 - only for this flag

    click.echo(
        f"nel {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})"
    )
    ctx.exit()


_APART: Final = ["nel eval", "nel judge"]
_WHOLE: Final = [title for title in CONTENTS if title not in _APART]


@click.group(
    cls=LazyGroup, sections=_WHOLE, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version.",
)
def nel() -> None:
    """nel evaluates language models and agents.

    Exit codes: 0 done, 1 config or usage error, 2 a benchmark failed, 3 finished but INVALID, 4 budget spent,
    5 batches submitted but not collected, 130 interrupted. (`compare`, `gate` and `check` list theirs under --help.)
    """


@nel.group("eval", cls=LazyGroup, sections=["nel eval"])
def evaluate() -> None:
    """Run evaluations and manage runs."""


@nel.group(cls=LazyGroup, sections=["nel judge"])
def judge() -> None:
    """Label rows, calibrate judges and attack them."""


@nel.command()
def version() -> None:
    """Print the version."""
    click.echo(f"nemo_evaluator: {__version__}")


def main() -> None:
    """Run ``nel``; errors for users are shown without a traceback."""
    gc.set_threshold(*COLLECTIONS)
    hide_arguments()
    try:
        exit_code = nel.main(standalone_mode=False)
        sys.exit(exit_code if isinstance(exit_code, int) else 0)
    except (NelError, OSError, click.ClickException) as error:
        from nemo_evaluator.cli._errors import tell  # noqa: PLC0415 - only when something went wrong

        sys.exit(tell(error))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
