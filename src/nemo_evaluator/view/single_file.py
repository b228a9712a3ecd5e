"""The viewer's page as one HTML file: its styles, scripts and data are inside, and it loads nothing from elsewhere."""

import re
import secrets
from base64 import b64encode
from typing import Final

from nemo_evaluator.core.files import dumps
from nemo_evaluator.reports import style_sheet
from nemo_evaluator.view.page_html import PAGE, STATIC, scripts, with_head

# An import of a script beside this one, as in `import { html } from "./lib.js"`.
_IMPORT: Final = re.compile(r'((?:from|import)\s*)"\./([\w.]+)"')
_VENDOR: Final = "vendor/"
# The links of the page to files beside it.
_LINKS: Final = ("app.js", 'rel="stylesheet"')
_LESS_THAN_IN_JSON: Final = "\\u003c"


def export_elements(policy: str) -> list[str]:
    """Return the elements that mark a page as an export and set its content policy."""
    return [
        '<meta name="nel-export" content="">',
        f'<meta http-equiv="content-security-policy" content="{policy}">',
    ]


def single_file(data: str) -> str:
    """Return the page with its styles, scripts and data.

    Args:
        data: The data of the export as JSON.
    """
    # The content policy allows the scripts with this nonce only, and those that they import.
    nonce = secrets.token_urlsafe(16)
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}' 'strict-dynamic'; style-src 'nonce-{nonce}'; img-src data:; "
        "style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
    styles = f"{style_sheet()}\n{_static('view.css')}"
    licenses = _static("vendor/LICENSES.txt").replace("<", "&lt;")
    import_map = dumps({"imports": _importable_scripts()}).decode()
    escaped_data = data.replace("<", _LESS_THAN_IN_JSON)
    elements = [
        *export_elements(policy),
        f'<style nonce="{nonce}">{styles}</style>',
        f'<script type="application/json" id="nel-data">{escaped_data}</script>',
        f'<script type="text/plain" id="licences">{licenses}</script>',
        f'<script type="importmap" nonce="{nonce}">{import_map}</script>',
        f'<script type="module" nonce="{nonce}">import "nel/app.js";</script>',
    ]
    return with_head(_page_without_links(), elements)


def _static(name: str) -> str:
    """Return the text of a file of the page."""
    return (STATIC / name).read_text(encoding="utf-8")


def _importable_scripts() -> dict[str, str]:
    """Return the scripts as data URLs by the names under which they import each other: ``nel/NAME.js``.

    A script in a data URL cannot import files beside it, so all imports go through these names.
    """
    urls: dict[str, str] = {}
    for path, text in scripts().items():
        flat_text = text.replace(f'"./{_VENDOR}', '"./')
        module = _IMPORT.sub(r'\1"nel/\2"', flat_text)
        encoded = b64encode(module.encode()).decode()
        urls[f"nel/{path.removeprefix(_VENDOR)}"] = f"data:text/javascript;base64,{encoded}"
    return urls


def _page_without_links() -> str:
    """Return the page without its links to styles and scripts."""
    lines: list[str] = []
    for line in _static(PAGE).splitlines():
        if not any(link in line for link in _LINKS):
            lines.append(line)
    return "\n".join(lines)
