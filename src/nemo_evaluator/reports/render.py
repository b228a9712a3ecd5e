"""One report, five formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.registry import nearest
from nemo_evaluator.reports.csv_table import render_csv
from nemo_evaluator.reports.json_doc import render_json
from nemo_evaluator.reports.latex import render_latex
from nemo_evaluator.reports.load import load_report
from nemo_evaluator.reports.markdown import render_markdown
from nemo_evaluator.reports.model import EvalReport

RENDERERS: Final[dict[str, Callable[[EvalReport], str]]] = {
    "markdown": render_markdown,
    "csv": render_csv,
    "json": render_json,
    "latex": render_latex,
}
SUFFIXES: Final = {"markdown": "md", "html": "html", "csv": "csv", "json": "json", "latex": "tex"}
# Formats that also show rows, so that results.jsonl is read for them.
WANTS_ROWS: Final = frozenset({"html"})


def render(report: EvalReport, fmt: str) -> str:
    """The report in one format: markdown, html, csv, json or latex."""
    if fmt not in RENDERERS:
        close = nearest(fmt, list(RENDERERS))
        hint = f"did you mean {close!r}?" if close else f"one of {', '.join(RENDERERS)}"
        raise UsageError(f"unknown report format {fmt!r}", hint=hint)
    return RENDERERS[fmt](report)


def write_reports(
    output_dir: Path | str,
    formats: Iterable[str] = ("markdown",),
    *,
    paths: Sequence[Path | str] | None = None,
) -> list[Path]:
    """Write ``report.<suffix>`` into ``output_dir`` for each format, from the bundles under ``paths`` (or under it)."""
    folder, wanted = Path(output_dir), list(dict.fromkeys(formats))
    if not wanted:
        return []
    report = load_report(paths or [folder], rows=bool(WANTS_ROWS & set(wanted)))
    texts = {fmt: render(report, fmt) for fmt in wanted}
    written = []
    for fmt, text in texts.items():
        path = folder / f"report.{SUFFIXES[fmt]}"
        write_atomic(path, text)
        written.append(path)
    return written
