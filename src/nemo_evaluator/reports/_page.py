"""The templates of pages and documents: every text escaped for its format, no name that a template does not know."""

import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from nemo_evaluator.reports import _words as words


def style_sheet() -> str:
    return (Path(__file__).parent / "templates" / "report.css").read_text()


@cache
def template(name: str, escape: Callable[[object], str] | None = None) -> Template:
    """One of the files under ``templates``: HTML, or another format that ``escape`` makes every value safe for."""

    def safe(value: Any) -> Any:
        return value if escape is None or isinstance(value, Markup) else Markup(escape(value))  # noqa: S704 - escaped

    environment = Environment(
        loader=PackageLoader("nemo_evaluator.reports", "templates"),
        autoescape=True,
        finalize=safe,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def plain_text(name: str, width: int | None = None, **values: Any) -> str:
    """A template for the terminal; lines that are longer than ``width`` are broken, what follows stands further in."""
    lines = (
        words.printable(template(name, str).render({"w": words, "width": width, **values}))
        .rstrip()
        .split("\n")
    )
    if width is not None:
        lines = [part for line in lines for part in _broken(line, max(width, 40))]
    return "\n".join(lines) + "\n"


def _broken(line: str, width: int) -> list[str]:
    further = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(line, width, subsequent_indent=further, break_on_hyphens=False) or [""]
