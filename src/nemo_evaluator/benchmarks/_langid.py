"""Which language a text is in (py3langid, loaded when it is first asked: its model takes 120 MB)."""

from functools import cache
from typing import Any

from nemo_evaluator.core.errors import MissingExtraError


@cache
def _identifier() -> Any:
    try:
        import py3langid  # noqa: PLC0415 - see above
    except ImportError as error:
        raise MissingExtraError("py3langid", extra="all") from error
    return py3langid


def language_of(text: str) -> str:
    """The ISO 639-1 code of the likeliest language."""
    return str(_identifier().classify(text)[0])
