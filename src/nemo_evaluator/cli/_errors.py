"""Errors as the user sees them on a terminal: what is wrong, where, and the fix. Never a traceback."""

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
    """Show an error that ends a command; returns the exit code."""
    if (
        isinstance(error, click.NoSuchOption)
        and (meant := same_word("options", error.option_name)) is not None
    ):
        error = click.UsageError(
            f"No such option {error.option_name!r}. Did you mean {meant!r}?", ctx=error.ctx
        )
    if isinstance(error, click.ClickException):
        error.show()
        return EXIT_USAGE
    if isinstance(error, NelError):
        told = error
    else:
        told = storage_error(error)
    click.echo(harmless(render_error(told)), err=True)
    return told.exit_code


def render_error(error: NelError) -> str:
    """The text of an error, several lines when it holds several problems."""
    if not isinstance(error, ConfigError) or not error.problems:
        return scrub(f"error: {error.message}" + (f"\n  hint: {error.hint}" if error.hint else ""))
    where = f" in {error.source}" if error.source else ""
    lines = [f"error: {counted(len(error.problems), 'problem')}{where}"]
    for problem in error.problems:
        lines += ["", f"  {problem_place(problem, error.source)}: {problem.message}"]
        lines += [f"    hint: {problem.hint}"] if problem.hint else []
    return scrub("\n".join(lines))


def problem_place(problem: Problem, source: str | None = None) -> str:
    """``file:line: path`` as far as it is known."""
    file = problem.source or source
    if file is None or problem.path.startswith("-O"):
        return problem.path
    if file.startswith("-O"):
        return f"{problem.path} (from {file})"
    if problem.line is not None:
        return f"{file}:{problem.line}: {problem.path}"
    return f"{file}: {problem.path}"


def better_command(group: str, word: str, known: Sequence[str]) -> str | None:
    """The command that the user probably meant, for one that ``group`` does not have."""
    if word.endswith((".yaml", ".yml")):
        return f"nel eval run {word}"
    if group.endswith(" eval") and (
        word.endswith(".py") or ".py:" in word or ".py@" in word or "://" in word
    ):
        return f"nel eval run --bench {word.partition('@')[0]}"
    close = nearest(word, list(known))
    if close is None and group.endswith(" eval"):
        return f"nel eval run --bench {word}"
    if close is not None:
        return f"{group} {close}"
    return same_word("commands", word)


def same_word(kind: str, word: str) -> str | None:
    """The name in nel for a command or option of another tool."""
    peers = yaml.safe_load(Path(__file__).with_name("peers.yaml").read_text(encoding="utf-8"))[kind]
    plain = word.replace("_", "-").lower()
    return next((ours for ours, theirs in peers.items() if plain in theirs), None)
