"""Which language a text is in (py3langid, loaded when it is first asked: its model takes 120 MB)."""

from nemo_evaluator.core.lazy import optional


def language_of(text: str) -> str:
    """The ISO 639-1 code of the likeliest language."""
    return str(optional("py3langid", extra="all").classify(text)[0])
