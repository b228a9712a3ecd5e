"""Plain YAML scalars as values: YAML 1.1 as PyYAML reads it, less the traps (times as numbers, dates, ``1e5``)."""

import re
from typing import Final

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o[0-7]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*\.[\d_]*([eE][-+]?\d+)?|\.\d[\d_]*([eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+)")
_INFINITE = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_scalar(text: str) -> str | int | float | bool | None:
    """The value of an unquoted scalar."""
    if text in NULLS:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _INT.fullmatch(text):
        return _integer(text)
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    infinite = _INFINITE.fullmatch(text)
    if infinite:
        return float("nan") if infinite.group(2) is None else float(f"{infinite.group(1)}inf")
    return text


def _integer(text: str) -> int | str:
    digits = text.replace("_", "")
    sign, body = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    try:
        if re.fullmatch(r"0[0-7]+", body):
            return int(f"{sign}{body}", 8)
        return int(f"{sign}{body}", 0)
    except ValueError:
        # Python refuses integers of thousands of digits; as text it is refused with a path by the schema.
        return text
