"""The HTML of the page: ``index.html``, with a link to each script so that a browser loads them side by side."""

from pathlib import Path
from typing import Final

STATIC: Final = Path(__file__).parent / "static"
PAGE: Final = "index.html"
# The page loads this script by itself; it imports the others.
_MAIN_SCRIPT: Final = "app.js"
_TITLE: Final = "<title>"


def scripts() -> dict[str, str]:
    """Return the text of each script by its path within ``static``."""
    texts: dict[str, str] = {}
    for path in sorted(STATIC.rglob("*.js")):
        texts[path.relative_to(STATIC).as_posix()] = path.read_text(encoding="utf-8")
    return texts


def page_html() -> str:
    """Return the page with a link to each script that it will import."""
    links: list[str] = []
    for name in scripts():
        if name != _MAIN_SCRIPT:
            links.append(f'<link rel="modulepreload" href="{name}">')
    page = (STATIC / PAGE).read_text(encoding="utf-8")
    return page.replace("</head>", "\n".join([*links, "</head>"]), 1)


def with_head(page: str, elements: list[str]) -> str:
    """Return a page with further elements before its title."""
    return page.replace(_TITLE, "\n".join([*elements, _TITLE]), 1)
