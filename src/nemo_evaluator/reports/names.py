"""What the files of reports are called."""

from typing import Final

SUFFIXES: Final = {"markdown": "md", "html": "html", "csv": "csv", "json": "json", "latex": "tex"}
