"""The templates of pages: every text escaped, no name that a template does not know."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template


@cache
def template(name: str) -> Template:
    """One of the files under ``templates``."""
    environment = Environment(
        loader=PackageLoader("nemo_evaluator.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
