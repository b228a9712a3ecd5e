"""What commands share: options that show their defaults, and what the shell offers after Tab.

Heavy packages are imported by name: listing the commands must not load them.
"""

import glob
import importlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.terminal import coloured, harmless, table, terminal_width

option = partial(click.option, show_default=True)
JSON = option("--json", "as_json", is_flag=True, help="Output JSON.")
PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False)


def with_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """Return a decorator that adds options to a command.

    Args:
        options: The options, in the order in which the help lists them.
    """

    def add_options(command: Callable[..., Any]) -> Callable[..., Any]:
        """Add the options, the last one first, as a stack of decorators does."""
        for add_option in reversed(options):
            command = add_option(command)
        return command

    return add_options


def say(line: str) -> None:
    """Print a line for people on stderr; stdout is for output that programs read."""
    click.echo(line, err=True)


def benchmark_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a benchmark."""
    registry = importlib.import_module("nemo_evaluator.environments.registry")
    return [name for name in registry.list_environments() if name.startswith(incomplete)]


def run_ids(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a run id, with what the run evaluates; a folder names a run, too."""
    run_registry = importlib.import_module("nemo_evaluator.store.run_registry")
    completions: list[CompletionItem[Any]] = []
    for run in run_registry.list_runs():
        if run.run_id.startswith(incomplete):
            completions.append(CompletionItem(run.run_id, help=run.config_summary))
    completions.append(CompletionItem(incomplete, type="dir"))
    return completions


def benchmarks_and_runs(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete an argument that is a benchmark or a run."""
    names = benchmark_names(ctx, parameter, incomplete)
    return [*map(CompletionItem, names), *run_ids(ctx, parameter, incomplete)]


def config_files(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the path of a YAML file."""
    typed_folder, slash, name_start = incomplete.rpartition("/")
    folder = Path(typed_folder or slash or ".")
    completions: list[CompletionItem[Any]] = []
    for path in sorted(folder.glob(f"{glob.escape(name_start)}*")):
        if path.is_dir():
            completions.append(CompletionItem(f"{typed_folder}{slash}{path.name}/"))
        elif path.name.endswith((".yaml", ".yml")):
            completions.append(CompletionItem(f"{typed_folder}{slash}{path.name}"))
    return completions


def show_table(
    rows: Sequence[Sequence[str]], narrow: Sequence[int] = (), more: Iterable[str] = ()
) -> None:
    """Print rows as columns.

    Args:
        rows: The rows, the head first.
        narrow: Indices of the columns that are shortened to fit the terminal, in this order.
        more: Lines to print after the table.
    """
    lines = [*table(rows, terminal_width(), narrow), *more]
    click.echo(harmless("\n".join(lines)))


def load_whole(
    file: Path | str, overrides: Sequence[str], *, file_only: bool = False, **more: Any
) -> Any:
    """Load a config; the error for a broken one also lists the problems of its correct parts.

    Args:
        file: The config.
        overrides: Overrides as ``KEY=VALUE``.
        file_only: Check only the file; open no dataset and no sandbox.
        more: Further arguments of ``load_config``.

    Raises:
        ConfigError: If the config has problems.
    """
    try:
        from nemo_evaluator.config import load_config  # noqa: PLC0415 - most commands read no config

        return load_config(file, overrides, **more)
    except ConfigError as error:
        from nemo_evaluator.preflight import find_problems  # noqa: PLC0415 - the whole engine, for a broken config

        raise error.with_rest(partial(find_problems, file_only=file_only)) from None


def echo_verdict(text: str) -> None:
    """Print text whose lines may start with a verdict, in colour on a terminal."""
    # None: click decides by whether stdout is a terminal.
    use_colour = False if os.environ.get("NO_COLOR") else None
    click.echo(coloured(harmless(text)), nl=False, color=use_colour)
