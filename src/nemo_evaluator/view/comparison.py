"""Compares runs for the viewer: the verdict, flips and categories of ``nel compare``, computed in a separate process.

A comparison needs the columns of every row. In a separate process it leaves the server small.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import orjson

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.compare.compare_runs import CompareOptions
from nemo_evaluator.decisions.compare.compare_set import compare_paths
from nemo_evaluator.reports.compare_pages import section_figures
from nemo_evaluator.reports.html import figures_html


def compared(paths: Sequence[Path]) -> JsonDict:
    """Compare the first run with all others."""
    comparison = compare_paths(paths[0], paths[1:], CompareOptions())
    entries = [
        {
            "candidate": entry.candidate,
            "benchmark": entry.benchmark,
            "folders": [
                Path(side.path).parent.name
                for side in (entry.report.baseline, entry.report.candidate)
            ],
            "report": entry.report.to_dict(),
            "figures": figures_html(section_figures(entry)),
        }
        for entry in comparison.entries
    ]
    return {"verdict": str(comparison.verdict), "warnings": comparison.warnings, "entries": entries}


async def compared_apart(paths: Sequence[Path], keys: Mapping[Path, str]) -> JsonDict:
    """Compare the first run with all others in a separate process.

    Args:
        paths: The folders of the runs.
        keys: The keys by which pages name the runs.

    Raises:
        UsageError: There are fewer than two runs, or the comparison fails.
    """
    if len(paths) < 2:
        raise UsageError("a comparison needs two runs", hint="pick two or more in the list of runs")
    command = [sys.executable, "-m", "nemo_evaluator.view.comparison", *map(str, paths)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        raise UsageError(
            errors.decode(errors="replace").strip().splitlines()[-1] if errors else "it was ended"
        )
    return with_keys(orjson.loads(output), paths, keys)


def with_keys(found: JsonDict, paths: Sequence[Path], keys: Mapping[Path, str]) -> JsonDict:
    """Add the keys by which pages name the runs to a comparison, and return it."""
    for entry in found["entries"]:
        entry["keys"] = [keys.get(paths[0]), keys.get(Path(entry["candidate"]))]
    return found


def main() -> None:
    """Compare the runs on the command line and print JSON."""
    try:
        sys.stdout.buffer.write(dumps(compared([Path(path) for path in sys.argv[1:]])))
    except NelError as error:
        sys.exit(f"{error.message}{f' ({error.hint})' if error.hint else ''}")


if __name__ == "__main__":
    main()
