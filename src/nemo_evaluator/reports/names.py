"""The suffixes of report files."""

from typing import Final

SUFFIXES: Final = {"markdown": "md", "html": "html", "csv": "csv", "json": "json", "latex": "tex"}
