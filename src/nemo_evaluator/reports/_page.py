"""The templates of pages and documents: every text escaped for its format, no name that a template does not know."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup


def style_sheet() -> str:
    """The style of all pages."""
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
