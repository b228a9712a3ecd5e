"""A translated config as YAML, with comments that say where its values come from and what was left out."""

from __future__ import annotations

from typing import Final

import yaml

from nemo_evaluator.core.text import valid_text
from nemo_evaluator.launcher.translate import Translated

_WIDTH: Final = 120


def converted_text(translated: Translated, source: str) -> str:
    """The YAML; warnings stand at its head, and each value has the launcher's field beside it."""
    origins = {path.replace("[", ".").replace("]", ""): field for path, field in translated.origins.items()}
    body = yaml.safe_dump(translated.config, sort_keys=False, allow_unicode=True, width=_WIDTH)
    lines = body.splitlines()
    for path, line in _lines(yaml.compose(body), ""):
        if (field := origins.get(path)) is not None and "#" not in lines[line]:
            lines[line] += f"  # {field}"
    head = [f"# Converted from {source}. Run it with: nel eval run FILE"]
    head += [f"# {one.field}: {one.detail}" for one in translated.of("warned")]
    return valid_text("\n".join([*head, *lines]) + "\n")


def _lines(node: yaml.Node | None, path: str) -> list[tuple[str, int]]:
    """The dotted paths of a document, with the line of each."""
    found: list[tuple[str, int]] = []
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            below = f"{path}.{key.value}" if path else str(key.value)
            found += [(below, key.start_mark.line), *_lines(value, below)]
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            found += _lines(value, f"{path}.{number}")
    return found
