"""One report, five formats."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.registry import Registry
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.reports.model import EvalReport, load_report
from nemo_evaluator.reports.names import SUFFIXES as SUFFIXES
from nemo_evaluator.store.sums import update_sums

_ROOM: Final = "nemo_evaluator.reports"
RENDERERS: Final[Registry[Callable[[EvalReport], str]]] = Registry("report format")
RENDERERS.add("markdown", f"{_ROOM}.documents:render_markdown")
RENDERERS.add("html", f"{_ROOM}.html:render_html")
RENDERERS.add("csv", f"{_ROOM}.data_formats:render_csv")
RENDERERS.add("json", f"{_ROOM}.data_formats:render_json")
RENDERERS.add("latex", f"{_ROOM}.documents:render_latex")
# Formats that also show rows, so that results.jsonl is read for them.
WANTS_ROWS: Final = frozenset({"html"})


def render(report: EvalReport, fmt: str) -> str:
    """The report in one format: markdown, html, csv, json or latex."""
    text = RENDERERS.get(fmt)(report)
    # JSON escapes by itself, and keeps what it was given.
    if fmt == "json":
        return text
    return harmless(text)


def write_reports(
    output_dir: Path | str,
    formats: Iterable[str] = ("markdown",),
    *,
    paths: Sequence[Path | str] | None = None,
) -> list[Path]:
    """Write ``report.<suffix>`` into ``output_dir`` for each format, from the bundles under ``paths`` (or under it)."""
    folder = Path(output_dir)
    wanted = list(dict.fromkeys(formats))
    if not wanted:
        return []
    report = load_report(paths or [folder], rows=bool(WANTS_ROWS & set(wanted)))
    texts = {fmt: render(report, fmt) for fmt in wanted}
    written = []
    for fmt, text in texts.items():
        path = folder / f"report.{SUFFIXES[fmt]}"
        write_atomic(path, text)
        written.append(path)
    update_sums(folder, written)
    return written
