"""The formats of a report, and the function that writes them."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.files import write_atomic
from nemo_evaluator.core.registry import Registry
from nemo_evaluator.core.terminal import harmless
from nemo_evaluator.reports.model import EvalReport, load_report
from nemo_evaluator.reports.names import SUFFIXES as SUFFIXES
from nemo_evaluator.store.sums import update_sums

RENDERERS: Final[Registry[Callable[[EvalReport], str]]] = Registry("report format")
RENDERERS.add("markdown", "nemo_evaluator.reports.documents:render_markdown")
RENDERERS.add("html", "nemo_evaluator.reports.html:render_html")
RENDERERS.add("csv", "nemo_evaluator.reports.data_formats:render_csv")
RENDERERS.add("json", "nemo_evaluator.reports.data_formats:render_json")
RENDERERS.add("latex", "nemo_evaluator.reports.documents:render_latex")
# Formats that show rows, which requires reading results.jsonl.
WANTS_ROWS: Final = frozenset({"html"})


def render(report: EvalReport, fmt: str) -> str:
    """Render the report in one format.

    Args:
        report: The report.
        fmt: markdown, html, csv, json or latex.

    Raises:
        UsageError: The format is unknown.
    """
    text = RENDERERS.get(fmt)(report)
    # JSON escapes control characters itself.
    if fmt == "json":
        return text
    return harmless(text)


def write_reports(
    output_dir: Path | str,
    formats: Iterable[str] = ("markdown",),
    *,
    paths: Sequence[Path | str] | None = None,
) -> list[Path]:
    """Write ``report.<suffix>`` for each format.

    Args:
        output_dir: The folder to write into.
        formats: The formats.
        paths: Where to look for bundles; None for ``output_dir``.

    Returns:
        The paths of the files.

    Raises:
        UsageError: There is nothing to report on, a bundle cannot be read, or a format is unknown.
    """
    folder = Path(output_dir)
    distinct_formats = list(dict.fromkeys(formats))
    if not distinct_formats:
        return []
    shows_rows = not WANTS_ROWS.isdisjoint(distinct_formats)
    report = load_report(paths or [folder], rows=shows_rows)
    # All formats are rendered before a file is written, so that an unknown one leaves no files.
    text_of_format = {fmt: render(report, fmt) for fmt in distinct_formats}
    written: list[Path] = []
    for fmt, text in text_of_format.items():
        path = folder / f"report.{SUFFIXES[fmt]}"
        write_atomic(path, text)
        written.append(path)
    update_sums(folder, written)
    return written
