"""Secrets of a translated config become references: the config is kept in a file, the secrets in the environment."""

import re
from collections.abc import Mapping
from typing import Any, Final

from nemo_evaluator.core.secret_places import (
    ConfigPath,
    SettingKind,
    member_path,
    place_of,
    secret_pieces,
)
from nemo_evaluator.core.types import JsonDict

PREFIX: Final = "NEL_SECRET"
# Shorter values, such as `1`, say nothing of where they came from.
_SHORTEST: Final = 6


class SecretReferences:
    """Takes the secrets out of a config; ``variables`` are those that the config refers to instead.

    Args:
        read: The environment variables whose values the launcher's config took over.
    """

    def __init__(self, read: Mapping[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self._names = {value: name for name, value in read.items() if len(value) >= _SHORTEST}

    def replace(self, value: Any, path: ConfigPath = (), before: str = "") -> Any:
        """The value with a reference in the place of each secret."""
        if isinstance(value, dict):
            mapping: dict[Any, Any] = {}
            for key, item in value.items():
                mapping[key] = self.replace(item, member_path(path, value, key))
            return mapping
        if isinstance(value, list):
            return self._listed(value, path)
        if isinstance(value, str):
            return self._text(value, path, before)
        return value

    def _listed(self, values: list[Any], path: ConfigPath) -> list[Any]:
        replaced: list[Any] = []
        before = ""
        for number, item in enumerate(values):
            replaced.append(self.replace(item, (*path, number), before))
            if isinstance(item, str):
                before = item
            else:
                before = ""
        return replaced

    def _text(self, text: str, path: ConfigPath, before: str) -> str:
        if text in self._names and place_of(path) in (
            SettingKind.HEADER,
            SettingKind.NAMED,
            SettingKind.ENVIRONMENT,
        ):
            return f"${{{self._names[text]}}}"
        pieces = secret_pieces(text, path, before)
        return "".join(
            self._reference(piece, path) if secret else piece for piece, secret in pieces
        )

    def _reference(self, secret: str, path: ConfigPath) -> str:
        words = [re.sub(r"\W", "_", str(key)) for key in path]
        name = "_".join([PREFIX, *words]).upper()
        # What the config escapes, the environment holds as it is meant.
        plain = secret.replace("$${", "${")
        number = 2
        while self.variables.get(name, plain) != plain:
            name = f"{name.removesuffix(f'_{number - 1}')}_{number}"
            number += 1
        self.variables[name] = plain
        return f"${{{name}}}"


def without_secrets(config: JsonDict, read: Mapping[str, str]) -> tuple[JsonDict, dict[str, str]]:
    """The config with references in the place of secrets, and the variables that they name."""
    references = SecretReferences(read)
    replaced = {key: references.replace(value, (key,)) for key, value in config.items()}
    return replaced, references.variables
