"""``nel show RUN``: prompts and answers of a run, as people read them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.wording import counted
from nemo_evaluator.runs.folder import BenchmarkFolder, open_run
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.runs.row import Row
from nemo_evaluator.store.runs import find_run


def is_run(name: str) -> bool:
    """True when the argument is a folder, or begins like the id of a run; benchmarks have names, files or URIs."""
    return Path(name).is_dir() or re.match(r"\d{8}_\d", name) is not None


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rows are shown: all, ``wrong`` or ``failed`` ones, or those of one problem; at most so many."""

    which: str | None = None
    row: int | None = None
    limit: int = 10

    def of(self, task: BenchmarkFolder) -> Iterator[Row]:
        """The rows of one benchmark."""
        asked = RowFilter(problem_idx=self.row, status={"failed": "failed", "wrong": "scored"}.get(self.which or ""))  # type: ignore[arg-type]
        return (one for one in task.rows(asked) if self.which != "wrong" or not one.right)


def show_rows(folder: str, choice: RowChoice, *, as_json: bool = False) -> None:
    """Print the rows of a run. Raises UsageError when there are none of that choice."""
    shown = 0
    path = folder if Path(folder).is_dir() else find_run(folder).output_dir
    for task in open_run(path).benchmarks.values():
        for one in choice.of(task):
            if shown == choice.limit:
                click.echo(f"{counted(shown, 'row')} shown; more with --limit N, one problem with --row N", err=True)
                return
            shown += 1
            click.echo(dumps(one.data).decode() if as_json else harmless(_text(task.name, one)))
    if not shown:
        raise UsageError(f"{folder} has no {choice.which + ' ' if choice.which else ''}rows of that choice")


def _text(benchmark: str, row: Row) -> str:
    verdict = f"failed: {row.cause}" if row.failed else f"{'right' if row.right else 'wrong'} (reward {row.reward:g})"
    notes = [word for word, holds in (("truncated", row.truncated), ("unparsed", row.unparsed)) if holds]
    head = f"=== {benchmark}, problem {row.problem_idx}, repeat {row.repeat}: {', '.join([verdict, *notes])}"
    lines = [head, "\n--- prompt", row.prompt]
    if row.failed:
        return "\n".join([*lines, "\n--- error", row.error, ""])
    lines += ["\n--- answer", row.response, f"\n--- extracted\n{row.extracted}", f"\n--- expected\n{row.expected}", ""]
    return "\n".join(lines)
