"""A click group whose commands are imported only when they are used, so that ``nel --help`` takes a blink."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """Commands by name: ``{"run": ("module:command", "one line of help")}``; ``sections`` groups them in the help."""

    def __init__(
        self,
        *args: object,
        lazy: Mapping[str, tuple[str, str]] | None = None,
        sections: Mapping[str, str] | None = None,
        **kwargs: object,
    ) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self._lazy = dict(lazy or {})
        self._sections = {title: names.split() for title, names in (sections or {}).items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order they were given."""
        return [*self._lazy, *sorted(self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name in self._lazy:
            module, _, attribute = self._lazy[cmd_name][0].partition(":")
            command: click.Command = getattr(importlib.import_module(module), attribute)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; for a word that is unknown, the command that was probably meant is told."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            peers = importlib.import_module("nemo_evaluator.cli._peers")
            meant = peers.better_command(ctx.command_path, args[0], self.list_commands(ctx))
            if meant is None:
                raise
            raise click.UsageError(f"{error.message} Did you mean: {meant}", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table, without importing any."""
        rows = {name: line for name, (_, line) in self._lazy.items()}
        rows |= {name: self.commands[name].get_short_help_str() for name in sorted(self.commands)}
        width = max(map(len, rows))
        for title, names in (self._sections or {"Commands": list(rows)}).items():
            with formatter.section(title):
                # All sections have their second column at the same place.
                formatter.write_dl([(name.ljust(width), rows[name]) for name in names])
