"""Replace the secrets of a translated config by references to environment variables."""

import re
from collections.abc import Mapping
from typing import Any, Final

from nemo_evaluator.core.secret_masks import secret_pieces
from nemo_evaluator.core.secret_places import ConfigPath, SettingKind, member_path, place_of
from nemo_evaluator.core.types import JsonDict

PREFIX: Final = "NEL_SECRET"
# A shorter value, such as `1`, may equal that of a variable by chance.
_SHORTEST: Final = 6
# Kinds of settings whose whole value may refer to the variable that the launcher's config named.
_NAMED_KINDS: Final = (SettingKind.HEADER, SettingKind.NAMED, SettingKind.ENVIRONMENT)


class SecretReferences:
    """Replaces the secrets in a config by references to variables (``variables``, with their values).

    Args:
        read: The environment variables whose values the launcher's config contains.
    """

    def __init__(self, read: Mapping[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self._names = {value: name for name, value in read.items() if len(value) >= _SHORTEST}

    def replace(self, value: Any, path: ConfigPath = (), before: str = "") -> Any:
        """Return a value with a reference in the place of each secret.

        Args:
            value: The value, of any type.
            path: Its path in the config.
            before: The text before it in a list, such as the flag of a command.
        """
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
        """Replace the secrets in a list, where a text may follow its flag."""
        replaced: list[Any] = []
        previous_text = ""
        for number, item in enumerate(values):
            replaced.append(self.replace(item, (*path, number), previous_text))
            previous_text = item if isinstance(item, str) else ""
        return replaced

    def _text(self, text: str, path: ConfigPath, before: str) -> str:
        """Replace the secrets in a text; a text that came from a variable refers to it by name."""
        if text in self._names and place_of(path) in _NAMED_KINDS:
            return f"${{{self._names[text]}}}"
        replaced: list[str] = []
        for piece, is_secret in secret_pieces(text, path, before):
            replaced.append(self._reference(piece, path) if is_secret else piece)
        return "".join(replaced)

    def _reference(self, secret: str, path: ConfigPath) -> str:
        """Return a reference to a variable that holds the secret; its name is made from the path."""
        path_names = [re.sub(r"\W", "_", str(key)) for key in path]
        name = "_".join([PREFIX, *path_names]).upper()
        # The config escapes `${` as `$${`; the environment holds the plain value.
        variable_value = secret.replace("$${", "${")
        number = 2
        while self.variables.get(name, variable_value) != variable_value:
            name = f"{name.removesuffix(f'_{number - 1}')}_{number}"
            number += 1
        self.variables[name] = variable_value
        return f"${{{name}}}"


def without_secrets(config: JsonDict, read: Mapping[str, str]) -> tuple[JsonDict, dict[str, str]]:
    """Replace the secrets in a config by references to environment variables.

    Args:
        config: The config; it is not changed.
        read: The environment variables whose values the config contains.

    Returns:
        The config with references, and the variables to which they refer.
    """
    references = SecretReferences(read)
    replaced = {key: references.replace(value, (key,)) for key, value in config.items()}
    return replaced, references.variables
