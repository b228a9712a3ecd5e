"""The words of verdicts, each with its one meaning: pages print them, ``docs/verdicts.md`` explains them.

Statuses are of a run, verdicts of a difference (a benchmark or a category), decisions of a release as a whole.
"""

from pathlib import Path
from typing import Final

import orjson

_WORDS: Final[dict[str, dict[str, str]]] = orjson.loads(Path(__file__).with_name("verdicts.json").read_bytes())
STATUSES: Final = _WORDS["statuses"]
VERDICTS: Final = _WORDS["verdicts"]
DECISIONS: Final = _WORDS["decisions"]
ICONS: Final = _WORDS["icons"]


def explained(words: dict[str, str]) -> str:
    """The words with their meanings, as one sentence."""
    return "; ".join(f"{word}: {meaning}" for word, meaning in words.items()) + "."
