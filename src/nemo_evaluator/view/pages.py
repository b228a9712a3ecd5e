"""The page of a run, with plots made by the reports' code, and the page of a row, whose long texts come in parts."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.reports.html import figures_html, figures_of
from nemo_evaluator.reports.model import BenchmarkReport
from nemo_evaluator.reports.row_details import RowDetails, histogram
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.folder import BenchmarkFolder
from nemo_evaluator.runs.labels import Label, read_labels
from nemo_evaluator.runs.query import IndexedRow, RowFilter, outcomes, places, tally
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import answer_of, trajectories_of
from nemo_evaluator.runs.unfinished import find_unfinished
from nemo_evaluator.store.layout import TaskPaths
from nemo_evaluator.view.library import Library
from nemo_evaluator.view.page_rows import listed

# The number of characters of a text, or of one in an agent's step, to send at first.
FIRST: Final = 65_536
_IN_A_STEP: Final = 4_096
# The deepest level of a row's fields to show.
_DEEPEST: Final = 50
PART: Final = 1 << 18
# Search a journal up to this size for an answer that the index does not point to.
_SEARCHED: Final = 1 << 29
_ASKED: Final = (
    "messages",
    "prompt",
    "model",
    "content",
    "reasoning_content",
    "time_to_first_token_ms",
    "queue_ms",
)
_SUMMED: Final = (
    "model",
    "invalid",
    "truncated_share",
    "unparsed_share",
    "samples",
    "repeats",
    "config",
)
_STATE: Final = ("status", "cause", "error", "reward", "label", "truncated", "unparsed", "refused")
_FACTS: Final = (*_STATE, "tokens", "attempts")
_KEPT: Final = (
    *_ASKED,
    "reasoning_tokens",
    "cached_tokens",
    "from_cache",
    "error",
    "at",
    "attempts",
)


def run_page(library: Library, key: str) -> JsonDict:
    """Return a run for the list, with the summary of each benchmark."""
    described = library.described(key)
    benchmarks = library.run(key).benchmarks
    running = described["state"] == "running"
    return described | {
        "parts": [summary(library.benchmark(key, name), running=running) for name in benchmarks]
    }


def summary(folder: BenchmarkFolder, *, running: bool) -> JsonDict:
    """Return the scores, failures and notes of a benchmark, without reading its rows."""
    bundle, missing = _bundle(folder)
    missing += _missing(folder, bundle, running=running)
    if bundle is None:
        return {
            "name": folder.name,
            "missing": missing,
            "scores": [],
            "failures": [],
            "notes": [],
            "config": {},
        }
    return {
        "name": folder.name,
        "title": bundle.name,
        **{name: getattr(bundle, name) for name in _SUMMED},
        "missing": missing,
        "notes": _notes(bundle),
        "scores": [asdict(score) for score in bundle.scores],
        "failures": [asdict(line) for line in (*bundle.failures, *bundle.flaws)],
        "runtime": asdict(bundle.runtime),
        "version": bundle.sdk_version,
        "drawn": TaskPaths(folder.path).label_draw.is_file(),
    }


def _notes(bundle: Bundle) -> list[str]:
    """Return the notes to show beside the scores; the page shows the reasons of an invalid benchmark separately."""
    reasons = () if bundle.invalid else bundle.reasons
    notes = [*reasons, *bundle.notes, bundle.stop_reason]
    shown_apart = bundle.invalid
    return [note for note in dict.fromkeys(notes) if note and note not in shown_apart]


def figures(folder: BenchmarkFolder) -> str:
    """Return the plots of a benchmark, finished or not, with the index in place of the rows that reports read."""
    bundle, _ = _bundle(folder)
    with folder.reading() as (columns, _):
        outcome_counts, binary = outcomes(columns)
        latency, tokens = (histogram(columns[name]) for name in ("latency_ms", "tokens"))
        causes = {name: number for name, number, _ in tally(columns, "cause")}
        groups: dict[str, dict[str, float]] = {}
        for name, row_count, mean_reward in tally(columns, "category"):
            groups[name] = {"n": row_count, "mean_reward": mean_reward}
    details = RowDetails(
        sum(outcome_counts.values()),
        latency,
        tokens,
        outcomes=outcome_counts,
        causes=causes,
        binary=binary,
    )
    if bundle:
        document: JsonDict | dict[str, dict[str, dict[str, dict[str, float]]]] = bundle.document
    else:
        document = {"benchmark": {"categories": groups}}
    report = BenchmarkReport(
        bundle.path if bundle else folder.path / "unfinished", document, details
    )
    return figures_html(figures_of(report))


def _bundle(folder: BenchmarkFolder) -> tuple[Bundle | None, list[str]]:
    """Return the bundle of a benchmark, if it has one, and the problems with reading it."""
    try:
        return folder.bundle, []
    except UsageError as error:
        return None, [error.message]


def _missing(folder: BenchmarkFolder, bundle: Bundle | None, *, running: bool) -> Iterator[str]:
    """Yield warnings about missing data for the reader of the page."""
    task = TaskPaths(folder.path)
    if bundle is None and not running:
        yield from (
            f"{unfinished.name} {unfinished.reason}" for unfinished in find_unfinished(folder.path)
        )
    if task.results.is_file():
        rows = task.results
    else:
        rows = task.journal
    if not running and _torn(rows):
        yield f"The last line of {rows.name} was cut off; `nel eval resume` asks for what is lost."
    if not task.journal.is_file():
        yield "There is no journal: requests as they were sent, reasoning and timings are not known."
    if bundle is None:
        return
    progress = folder.progress()
    row_count = progress.scored + progress.failed
    if row_count < bundle.n_results:
        yield f"The bundle counts {counted(bundle.n_results, 'row')}, {row_count:,} can be read."
    if bundle.coverage.planned is None or not bundle.validity:
        yield "The bundle was written by an older version: coverage or validity was not recorded."


def _torn(path: Path) -> bool:
    """Return whether the last line of a file is incomplete."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read(1) != b"\n"


def row_page(folder: BenchmarkFolder, problem: int, repeat: int) -> JsonDict:
    """Return everything about a row; ``cut`` has the paths of shortened texts and their full lengths."""
    facts, repeats = _read(folder, problem, repeat)
    return page_of_row(
        folder, facts, read_labels(folder.path).get((problem, repeat)), repeats=repeats
    )


def page_of_row(
    folder: BenchmarkFolder, whole: JsonDict, label: Label | None, repeats: list[JsonDict]
) -> JsonDict:
    """Return the page of a row, made from its facts (see ``row_facts``)."""
    cut: dict[str, int] = {}
    steps = _shortened(whole.pop("steps"), "steps", _IN_A_STEP, cut=cut)
    return {
        **_shortened(whole, "", FIRST, cut=cut),
        "steps": steps,
        "cut": cut,
        "repeats": repeats,
        "label": asdict(label) if label else None,
        "commands": _commands(folder, Row(whole["row"])),
    }


def text_part(folder: BenchmarkFolder, problem: int, repeat: int, path: str, start: int) -> str:
    """Return a part of a shortened text.

    Args:
        folder: The benchmark.
        problem: The problem of the row.
        repeat: The repeat of the row.
        path: The path of the text within the page, as in ``cut``.
        start: The first character of the part.

    Raises:
        UsageError: There is no text at that path.
    """
    value: Any = _read(folder, problem, repeat)[0]
    for name in path.split("/"):
        try:
            if isinstance(value, list):
                value = value[int(name)]
            else:
                value = value[name]
        except (KeyError, ValueError, IndexError, TypeError) as error:
            raise UsageError(f"the row has no text {path!r}") from error
    return str(value)[max(0, start) : max(0, start) + PART]


def _read(folder: BenchmarkFolder, problem: int, repeat: int) -> tuple[JsonDict, list[JsonDict]]:
    """Read the facts of a row, and the rows of its problem for the table if there are several.

    Raises:
        UsageError: There is no such row.
    """
    labels = read_labels(folder.path)
    with folder.reading() as (columns, reader):
        indexed_rows = list(
            places(columns, RowFilter(problem_idx=problem), "problem_idx", offset=0, limit=1000)
        )
        requested_row = next(
            (indexed_row for indexed_row in indexed_rows if indexed_row.key == (problem, repeat)),
            None,
        )
        if requested_row is None:
            raise UsageError(f"{folder.name} has no row of problem {problem}, repeat {repeat}")
        row, (answer, outcome) = reader.row(requested_row), reader.records(requested_row)
        if len(indexed_rows) > 1:
            repeats: list[dict[str, Any]] = [
                listed(indexed_row, None, labels) for indexed_row in indexed_rows
            ]
        else:
            repeats = []
    task = TaskPaths(folder.path)
    if outcome is None and task.journal.is_file() and task.journal.stat().st_size < _SEARCHED:
        answer = answer_of(task.journal, row.key)
    if row.trajectory:
        row_with_steps = row
    else:
        row_with_steps = next(trajectories_of(task.trajectories, {row.key}), row)
    return row_facts(
        requested_row, row, answer, outcome=outcome, steps=row_with_steps.steps
    ), repeats


def row_facts(
    place: IndexedRow,
    row: Row,
    answer: JsonDict | None,
    outcome: JsonDict | None,
    steps: list[JsonDict],
) -> JsonDict:
    """Return the facts of a row with unshortened texts."""
    fields = {name: value for name, value in row.data.items() if name != "trajectory"}
    answer_fields = {name: answer[name] for name in _KEPT if name in answer} if answer else {}
    if outcome:
        timing: Any | dict[Any, Any] = outcome.get("timing", {})
    else:
        timing = {}
    messages = (
        answer_fields.get("messages")
        or (outcome or {}).get("messages")
        or [{"role": "user", "content": row.prompt}]
    )
    facts = {name: getattr(row, name) for name in _FACTS} | {"bytes": place.length}
    return {
        "row": fields,
        "sent": messages,
        "answer": answer_fields,
        "timing": timing,
        "facts": facts,
        "steps": steps,
    }


def _shortened(value: Any, path: str, most: int, cut: dict[str, int], level: int = 0) -> Any:
    """Shorten the long texts in a value; ``cut`` receives their paths and full lengths."""
    if isinstance(value, str) and len(value) > most:
        cut[path] = len(value)
        return value[:most]
    if level > _DEEPEST and isinstance(value, dict | list):
        return f"[nested deeper than {_DEEPEST} levels]"
    prefix = f"{path}/" if path else ""
    if isinstance(value, dict):
        short_fields: dict[Any, Any] = {}
        for name, part in value.items():
            short_fields[name] = _shortened(part, f"{prefix}{name}", most, cut=cut, level=level + 1)
        return short_fields
    if isinstance(value, list):
        short_items: list[Any] = []
        for position, part in enumerate(value):
            short_items.append(
                _shortened(part, f"{prefix}{position}", most, cut=cut, level=level + 1)
            )
        return short_items
    return value


def _commands(folder: BenchmarkFolder, row: Row) -> Sequence[JsonDict]:
    """Return the commands to show this problem in a terminal and to run it again."""
    run_folder = folder.path.parent
    problem_id = row.problem_hash[:12] or str(row.problem_idx)
    show_command = ["nel", "show", str(folder.path), "--row", str(row.problem_idx)]
    commands = [{"what": "Show it", "command": shlex.join(show_command)}]
    config = run_folder / "full_config.yaml"
    if config.is_file():
        run_command = [
            "nel",
            "eval",
            "run",
            str(config),
            "--only",
            problem_id,
            "--output-dir",
            f"{run_folder}_again",
        ]
        commands.append({"what": "Ask it again", "command": shlex.join(run_command)})
    return commands
