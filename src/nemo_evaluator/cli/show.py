"""``nel show``: print a problem exactly as it is sent, or prompts and answers of a run."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Final, Literal

import click
import yaml

from nemo_evaluator.cli._invalid import warn_damaged, warn_invalid
from nemo_evaluator.cli._options import benchmarks_and_runs, option, say
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.core.wording import counted
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.runs.folder import open_run
from nemo_evaluator.runs.query import RowFilter
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row import shown as shown_value
from nemo_evaluator.solvers.simple import messages_for
from nemo_evaluator.store.run_registry import find_run

_SHOWN = 120
_STATUS: Final[dict[str | None, Literal["failed", "scored"]]] = {
    "failed": "failed",
    "wrong": "scored",
}


def _show_rows(run: str, which: str | None, row: int | None, limit: int, *, as_json: bool) -> None:
    """Print the rows of a run that fit the options."""
    folder = run if Path(run).is_dir() else find_run(run).output_dir
    row_filter = RowFilter(problem_idx=row, status=_STATUS.get(which))
    shown_count = 0
    warn_damaged(Path(folder))
    for benchmark in open_run(folder).benchmarks.values():
        if benchmark.bundle is not None:
            warn_invalid([benchmark.bundle])
        for found_row in benchmark.rows(row_filter):
            if which == "wrong" and found_row.right:
                continue
            if shown_count == limit:
                shown = counted(shown_count, "row")
                say(f"{shown} shown; more with --limit N, one problem with --row N")
                return
            shown_count += 1
            if as_json:
                click.echo(dumps(found_row.data).decode())
            else:
                click.echo(harmless(_row_text(benchmark.name, found_row)))
    if not shown_count:
        kind = f"{which} rows" if which else "rows"
        raise UsageError(f"{run} has no {kind} of that choice")


def _row_text(benchmark: str, row: Row) -> str:
    """Render one row of a run: verdict, prompt, answer and expected answer, or the error."""
    parts: dict[str, Any] = {"prompt": row.prompt}
    if row.failed:
        verdict = f"failed: {row.cause}"
        parts["error"] = row.error
    else:
        reward = "no reward" if row.reward is None else f"reward {row.reward:g}"
        verdict = f"right ({reward})" if row.right else f"wrong ({reward})"
        parts["answer"] = row.response
        parts["extracted"] = row.extracted
        parts["expected"] = row.expected
    if row.truncated:
        verdict += ", truncated"
    if row.unparsed:
        verdict += ", unparsed"
    lines = [f"=== {benchmark}, problem {row.problem_idx}, repeat {row.repeat}: {verdict}"]
    for name, part in parts.items():
        text = shown_value(part) if isinstance(part, dict | list) else part
        lines.append(f"\n--- {name}\n{text}")
    return "\n".join([*lines, ""])


@click.command("show")
@click.argument("name", metavar="BENCHMARK|RUN", shell_complete=benchmarks_and_runs)
@option("--index", "-i", type=click.IntRange(0), default=0, help="Index of the problem to show.")
@option("--fewshot", type=click.IntRange(0), help="Number of worked examples before the problem.")
@option(
    "--param",
    "-p",
    "params",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a parameter of the benchmark; repeatable.",
)
@option("--system-prompt", help="System prompt of the solver.")
@option(
    "--wrong", "which", flag_value="wrong", help="Show scored rows of a run without full reward."
)
@option(
    "--failed", "which", flag_value="failed", help="Show rows of a run that could not be scored."
)
@option("--row", type=click.IntRange(0), help="Show the rows of a run with this problem index.")
@option("--limit", type=click.IntRange(1), default=10, help="Maximum number of rows of a run.")
@option("--json", "as_json", is_flag=True, help="Output JSON, with whole images.")
def show(
    name: str,
    index: int,
    fewshot: int | None,
    params: tuple[str, ...],
    system_prompt: str | None,
    which: str | None,
    row: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print one problem exactly as the simple solver sends it, and the expected answer.

    For the output folder of a run, print its prompts and answers (--wrong, --failed, --row N).
    """
    # A folder or a run id means a run; benchmarks are given as names, files or URIs.
    if Path(name).is_dir() or re.match(r"\d{8}_\d", name):
        _show_rows(name, which, row, limit=limit, as_json=as_json)
        return
    if which is not None or row is not None:
        raise UsageError(f"{name} is not the folder of a run", hint="nel eval runs lists runs")
    problem = asyncio.run(
        _problem(name, index, fewshot, params=_read(params), system_prompt=system_prompt)
    )
    if as_json:
        text = json.dumps(problem, indent=2, ensure_ascii=False, default=str)
    else:
        text = harmless(_shown(problem))
    click.echo(text)


def _shown(problem: JsonDict) -> str:
    """Render one problem: messages, expected answer and metadata."""
    lines = [f"{problem['benchmark']}, problem {problem['index']} of {problem['size']}"]
    for message in problem["messages"]:
        lines += [f"\n--- {message['role']}", _text(message["content"])]
    lines.append(f"\n--- expected\n{problem['expected_answer']}")
    if problem["metadata"]:
        lines.append("\n--- metadata")
    for key, value in problem["metadata"].items():
        text = str(value)
        if len(text) > _SHOWN:
            text = text[:_SHOWN] + "…"
        lines.append(f"{key}: {text}")
    return "\n".join(lines)


async def _problem(
    name: str, index: int, fewshot: int | None, params: JsonDict, system_prompt: str | None
) -> JsonDict:
    """Load one problem, with the messages that the simple solver sends."""
    environment = get_environment(name, num_fewshot=fewshot, params=params)
    try:
        size = await environment.dataset_size()
        if index >= size:
            hint = f"--index goes from 0 to {size - 1}" if size else "is the dataset empty?"
            raise UsageError(f"{name} has {counted(size, 'problem')}", hint=hint)
        await environment.prepare()
        seed: SeedResult = await environment.seed(index)
    finally:
        await environment.close()
    return {
        "benchmark": environment.name,
        "index": index,
        "size": size,
        "messages": messages_for(seed, system_prompt),
        "expected_answer": seed.expected_answer,
        "metadata": seed.stored_metadata(),
    }


def _read(params: tuple[str, ...]) -> JsonDict:
    """Parse ``--param KEY=VALUE`` options; values are YAML."""
    values: JsonDict = {}
    for param in params:
        key, separator, value = param.partition("=")
        if not separator:
            raise UsageError(f"--param {param!r} has no value", hint="write it as KEY=VALUE")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise UsageError(
                f"--param {key}: {value!r} is not YAML", hint="quote it: KEY='\"text\"'"
            ) from error
    return values


def _text(content: Any) -> str:
    """Return the text of a message; images are abbreviated."""
    if isinstance(content, str):
        return content
    lines: list[str] = []
    for part in content:
        url = ""
        if part.get("type") == "image_url":
            image = part.get("image_url") or {}
            url = str(image.get("url", ""))
        if url:
            lines.append(f"[image: {url[:40]}… {len(url):,} characters]")
        else:
            lines.append(str(part.get("text", part)))
    return "\n".join(lines)
