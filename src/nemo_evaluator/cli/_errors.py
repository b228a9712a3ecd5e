"""Errors on the terminal: the problem, its place and the fix, never a traceback."""

from collections.abc import Sequence
from pathlib import Path

import click
import yaml

from nemo_evaluator.core.errors import EXIT_USAGE, ConfigError, NelError, Problem
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.storage import storage_error
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.wording import counted


def tell(error: NelError | OSError | click.ClickException) -> int:
    """Show an error that ends a command.

    Returns:
        The exit code.
    """
    if isinstance(error, click.NoSuchOption):
        error = _with_suggestion(error)
    if isinstance(error, click.ClickException):
        error.show()
        return EXIT_USAGE
    shown_error = error if isinstance(error, NelError) else storage_error(error)
    click.echo(harmless(render_error(shown_error)), err=True)
    return shown_error.exit_code


def _with_suggestion(error: click.NoSuchOption) -> click.UsageError:
    """Return an error that suggests nel's name for another tool's option; without one, the error itself."""
    suggestion = same_word("options", error.option_name)
    if suggestion is None:
        return error
    return click.UsageError(
        f"No such option {error.option_name!r}. Did you mean {suggestion!r}?", ctx=error.ctx
    )


def render_error(error: NelError) -> str:
    """Render an error as text; a config error lists its problems, each with its place and hint."""
    if not isinstance(error, ConfigError) or not error.problems:
        text = f"error: {error.message}"
        if error.hint:
            text += f"\n  hint: {error.hint}"
        return scrub(text)
    source_note = f" in {error.source}" if error.source else ""
    lines = [f"error: {counted(len(error.problems), 'problem')}{source_note}"]
    for problem in error.problems:
        lines += ["", f"  {problem_place(problem, error.source)}: {problem.message}"]
        if problem.hint:
            lines.append(f"    hint: {problem.hint}")
    return scrub("\n".join(lines))


def problem_place(problem: Problem, source: str | None = None) -> str:
    """Describe where a problem is: ``file:line: path``, as far as that is known.

    Args:
        problem: The problem.
        source: The file of the config, if the problem does not name one.
    """
    source_file = problem.source or source
    if source_file is None or problem.path.startswith("-O"):
        return problem.path
    if source_file.startswith("-O"):
        return f"{problem.path} (from {source_file})"
    if problem.line is not None:
        return f"{source_file}:{problem.line}: {problem.path}"
    return f"{source_file}: {problem.path}"


def better_command(group: str, word: str, known: Sequence[str]) -> str | None:
    """Suggest the command that the user probably meant.

    Args:
        group: The group of commands, such as ``nel eval``.
        word: The unknown command.
        known: The commands of the group.

    Returns:
        The suggestion; None if there is none.
    """
    if word.endswith((".yaml", ".yml")):
        return f"nel eval run {word}"
    is_eval = group.endswith(" eval")
    names_benchmark = word.endswith(".py") or any(mark in word for mark in (".py:", ".py@", "://"))
    if is_eval and names_benchmark:
        return f"nel eval run --bench {word.partition('@')[0]}"
    nearest_command = nearest(word, list(known))
    if nearest_command is not None:
        return f"{group} {nearest_command}"
    if is_eval:
        return f"nel eval run --bench {word}"
    return same_word("commands", word)


def same_word(kind: str, word: str) -> str | None:
    """Return nel's name for a command or option of another tool; None if there is none.

    Args:
        kind: ``commands`` or ``options``.
        word: The name in the other tool.
    """
    text = Path(__file__).with_name("peers.yaml").read_text(encoding="utf-8")
    peer_names_by_own: dict[str, list[str]] = yaml.safe_load(text)[kind]
    normalised = word.replace("_", "-").lower()
    for own_name, peer_names in peer_names_by_own.items():
        if normalised in peer_names:
            return own_name
    return None
