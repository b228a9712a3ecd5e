"""``nel``: the command's table of contents."""

import gc
import sys
from typing import Final

import click

from nemo_evaluator._version import __version__
from nemo_evaluator.cli._lazy import LazyGroup
from nemo_evaluator.core.arguments import hide_arguments
from nemo_evaluator.core.errors import EXIT_INTERRUPTED, EXIT_USAGE, NelError
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless

_HERE: Final = "nemo_evaluator.cli"

LAZY: Final = {
    "eval": (f"{_HERE}.eval:evaluate", "Run evaluations and manage runs."),
    "run": (f"{_HERE}.run:run", "Run a config of the NeMo Evaluator Launcher."),
    "status": (f"{_HERE}.status:status", "Jobs of a run, by invocation or job id."),
    "info": (f"{_HERE}.info:info", "Where the files of a run are."),
    "logs": (f"{_HERE}.logs:logs", "Follow the logs of runs."),
    "kill": (f"{_HERE}.kill:kill", "Stop a run; nothing is lost."),
    "resume": (f"{_HERE}.eval.resume:resume", "Resume a stopped run."),
    "ls": (f"{_HERE}.ls:ls", "List the launcher's tasks, or runs."),
    "version": (f"{_HERE}.version:version", "Print the version."),
    "list": (f"{_HERE}.list:list_benchmarks", "List benchmarks."),
    "show": (f"{_HERE}.show:show", "Show a problem as it is sent, or the rows of a run."),
    "doctor": (f"{_HERE}.doctor:doctor", "Report what works on this machine."),
    "data": (f"{_HERE}.data:data", "Mirror and verify datasets."),
    "validate": (f"{_HERE}.validate:validate", "Run a few problems from a benchmark as a sanity check."),
    "config": (f"{_HERE}.config:config", "Check a config, print its schema, keep user settings."),
    "models": (f"{_HERE}.models:models", "Packaged small models: list, fetch, locate."),
    "view": (f"{_HERE}.view:view", "View runs in a browser: rows, comparisons, labels."),
    "report": (f"{_HERE}.report:report", "Render reports from finished runs."),
    "export": (f"{_HERE}.export:export", "Send finished runs to a tracker."),
    "compare": (f"{_HERE}.compare:compare", "Compare a candidate with a baseline."),
    "gate": (f"{_HERE}.gate:gate", "Decide GO, NO-GO or INCONCLUSIVE by a policy."),
    "power": (f"{_HERE}.power:power", "How many problems and repeats detect a drop."),
    "judge": (f"{_HERE}.judge:judge", "Label rows, calibrate judges, attack them."),
    "noise": (f"{_HERE}.noise:noise", "How far a model differs from itself when asked again."),
    "check": (f"{_HERE}.check:check", "Is a finished run valid?"),
    "sandbox": (f"{_HERE}.sandbox:sandbox", "List and clean up sandboxes."),
    "proxy": (f"{_HERE}.proxy:proxy", "Run a service's interceptor proxy alone."),
    "serve": (f"{_HERE}.serve:serve", "Serve a benchmark as a Gym server."),
    "cache": (f"{_HERE}.cache:cache", "Look at and prune the response cache."),
    "cache-sqsh": (f"{_HERE}.cache_sqsh:cache_sqsh", "Import a container image on a cluster once, as a .sqsh file."),
    "init": (f"{_HERE}.init:init", "Write a config: five questions, then the missing values."),
    "skills": (f"{_HERE}.skills:skills", "Build a config from flags; install skills for coding agents."),
    "inspect-model": (f"{_HERE}.inspect_model:inspect_model", "What a checkpoint needs, from its files alone."),
    "canary": (f"{_HERE}.canary:canary", "A few problems of each benchmark, with a verdict before the whole run."),
    "harvest": (f"{_HERE}.harvest:harvest", "Canonical scores of a run, with scale and standard error."),
    "recipe": (f"{_HERE}.recipe:recipe", "How named benchmarks are usually run."),
    "package": (f"{_HERE}.package:package", "Build a container image with a benchmark of your own inside."),
}
# How the help groups them.
_SECTIONS: Final = {
    "Evaluate": "eval init canary validate list recipe inspect-model config doctor",
    "Look at results": "view show report export",
    "Decide": "check compare gate power judge noise harvest",
    "Serve and package": "serve proxy package models data sandbox cache cache-sqsh skills",
    "Commands of the launcher": "run status info logs kill resume ls version",
}


def _version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    import platform  # noqa: PLC0415 - only for this flag

    click.echo(f"nel {__version__} (Python {platform.python_version()}, {platform.system()} {platform.machine()})")
    ctx.exit()


# What loading modules makes stays: looking for garbage in it would be a tenth of the start.
COLLECTIONS: Final = (500_000, 20, 100)


@click.group(cls=LazyGroup, lazy=LAZY, sections=_SECTIONS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def nel() -> None:
    """nel evaluates language models and agents.

    Exit codes: 0 done, 1 config or usage error, 2 a benchmark failed, 3 finished but INVALID, 4 budget spent,
    5 batches left to the vendor, 130 interrupted. (`compare`, `gate` and `check` list theirs under --help.)
    """


def main() -> None:
    """The entry point: errors for users are shown without a traceback."""
    gc.set_threshold(*COLLECTIONS)
    hide_arguments()
    try:
        code = nel.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except NelError as error:
        from nemo_evaluator.cli._errors import render_error  # noqa: PLC0415 - only when something went wrong

        click.echo(harmless(scrub(render_error(error))), err=True)
        sys.exit(error.exit_code)
    except OSError as error:
        from nemo_evaluator.cli._errors import render_error  # noqa: PLC0415
        from nemo_evaluator.core.storage import storage_error  # noqa: PLC0415

        told = storage_error(error)
        click.echo(scrub(render_error(told)), err=True)
        sys.exit(told.exit_code)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            from nemo_evaluator.cli._peers import better_option  # noqa: PLC0415

            if (meant := better_option(error.option_name)) is not None:
                said = f"No such option {error.option_name!r}. Did you mean {meant!r}?"
                error = click.UsageError(said, ctx=error.ctx)
        error.show()
        sys.exit(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
