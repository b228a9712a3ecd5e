"""The templates of pages and documents: every text is escaped for its format, and unknown names are errors."""

import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from nemo_evaluator.reports import _words as words

# Lines are not wrapped to fewer columns than these.
_NARROWEST: Final = 40


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

    def escape_value(value: Any) -> Any:
        """The value as text that is safe in the file's format; text that is escaped already stays."""
        if escape is None or isinstance(value, Markup):
            return value
        return Markup(escape(value))  # noqa: S704 - escaped

    environment = Environment(
        loader=PackageLoader("nemo_evaluator.reports", "templates"),
        autoescape=True,
        finalize=escape_value,
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
    page = template(name, str).render({"w": words, "width": width, **values})
    text = words.printable(page).rstrip()
    if width is None:
        return text + "\n"
    wrapped_lines: list[str] = []
    for line in text.split("\n"):
        wrapped_lines.extend(_wrapped(line, max(width, _NARROWEST)))
    return "\n".join(wrapped_lines) + "\n"


def _wrapped(line: str, width: int) -> list[str]:
    """The line wrapped to ``width``, its continuation indented by two more spaces."""
    indent = len(line) - len(line.lstrip())
    wrapped_lines = textwrap.wrap(
        line, width, subsequent_indent=" " * (indent + 2), break_on_hyphens=False
    )
    # ``wrap`` returns nothing for an empty line.
    return wrapped_lines or [""]
