"""The templates of pages and documents: every text is escaped for its format, and unknown names are errors."""

import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from nemo_evaluator.reports import _words as words


def style_sheet() -> str:
    """The style sheet shared by all HTML pages."""
    return (Path(__file__).parent / "templates" / "report.css").read_text()


@cache
def template(name: str, escape: Callable[[object], str] | None = None) -> Template:
    """Load a template from ``templates``.

    Args:
        name: The name of the file.
        escape: Makes a value safe for the file's format; None for HTML, which Jinja escapes.
    """

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
    """Render a template for the terminal.

    Args:
        name: The name of the file.
        width: Wrap lines that are longer, with their continuation indented; None keeps them.
        **values: The values that the template uses.
    """
    lines = (
        words.printable(template(name, str).render({"w": words, "width": width, **values}))
        .rstrip()
        .split("\n")
    )
    if width is not None:
        lines = [wrapped_line for line in lines for wrapped_line in _broken(line, max(width, 40))]
    return "\n".join(lines) + "\n"


def _broken(line: str, width: int) -> list[str]:
    """The line wrapped to ``width``, its continuation indented by two more spaces."""
    continuation_indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=continuation_indent, break_on_hyphens=False
    ) or [""]
