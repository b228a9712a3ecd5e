"""Words that people bring along from other tools, and what does the same here. Loaded only when a word is unknown."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from nemo_evaluator.core.registry import nearest


def better_command(group: str, word: str, known: Sequence[str]) -> str | None:
    """What was probably meant by a command that ``group`` does not have."""
    if word.endswith((".yaml", ".yml")):
        return f"nel eval run {word}"
    if group.endswith(" eval") and (word.endswith(".py") or ".py:" in word or ".py@" in word or "://" in word):
        return f"nel eval run --bench {word.partition('@')[0]}"
    close = nearest(word, list(known))
    if close is None and group.endswith(" eval"):
        return f"nel eval run --bench {word}"
    return f"{group} {close}" if close is not None else _same("commands", word)


def better_option(name: str) -> str | None:
    """The option that does what ``name`` does elsewhere."""
    return _same("options", name)


def _same(kind: str, word: str) -> str | None:
    peers = yaml.safe_load(Path(__file__).with_name("peers.yaml").read_text(encoding="utf-8"))[kind]
    plain = word.replace("_", "-").lower()
    return next((ours for ours, theirs in peers.items() if plain in theirs), None)
