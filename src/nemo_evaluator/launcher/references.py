"""Replace the secrets of a translated config by references to environment variables."""

import re
from collections.abc import Mapping
from typing import Any, Final

from nemo_evaluator.core.secret_masks import secret_pieces
from nemo_evaluator.core.secret_places import ConfigPath, SettingKind, member_path, place_of
from nemo_evaluator.core.types import JsonDict

#: How the names of new variables begin.
PREFIX: Final = "NEL_SECRET"
# The value of a variable is recognized in the config only from this length: a shorter one, such as `1`, may be equal
# by chance.
_SHORTEST_VALUE: Final = 6
# Settings whose whole value may be a reference to the variable that the launcher's config named.
_REFERRING_KINDS: Final = (SettingKind.HEADER, SettingKind.NAMED, SettingKind.ENVIRONMENT)
_NOT_IN_NAMES: Final = re.compile(r"\W")


def without_secrets(
    config: JsonDict, variables_read: Mapping[str, str]
) -> tuple[JsonDict, dict[str, str]]:
    """Replace the secrets in a config by references to environment variables.

    Args:
        config: The config; it is not changed.
        variables_read: The environment variables whose values the translation copied into the config.

    Returns:
        The config with references, and the new variables with their values. Variables of ``variables_read`` are not
        among them: they are set already.
    """
    references = SecretReferences(variables_read)
    replaced: JsonDict = {}
    for key, value in config.items():
        replaced[key] = references.replace(value, (key,))
    return replaced, references.variables


class SecretReferences:
    """Replaces the secrets in the values of a config by references such as ``${NEL_SECRET_SERVICES_JUDGE_API_KEY}``.

    Args:
        variables_read: The environment variables whose values the config contains.

    Attributes:
        variables: The new variables that the references need, with their values.
    """

    def __init__(self, variables_read: Mapping[str, str]) -> None:
        self.variables: dict[str, str] = {}
        self._name_of_value: dict[str, str] = {}
        for name, value in variables_read.items():
            if len(value) >= _SHORTEST_VALUE:
                self._name_of_value[value] = name

    def replace(self, value: Any, path: ConfigPath = (), previous_text: str = "") -> Any:
        """Return a copy of a value, with a reference in place of each secret.

        Args:
            value: A part of the config: a mapping, a list or a plain value.
            path: Its path in the config, which shows whether a text is a secret.
            previous_text: For an item of a list, the item before it: a flag such as ``--api-key`` shows that the next
                item is a secret.
        """
        if isinstance(value, dict):
            return self._replace_in_mapping(value, path)
        if isinstance(value, list):
            return self._replace_in_list(value, path)
        if isinstance(value, str):
            return self._replace_in_text(value, path, previous_text)
        return value

    def _replace_in_mapping(self, mapping: dict[Any, Any], path: ConfigPath) -> dict[Any, Any]:
        """Replace the secrets in the values of a mapping."""
        replaced: dict[Any, Any] = {}
        for key, item in mapping.items():
            item_path = member_path(path, mapping, key)
            replaced[key] = self.replace(item, item_path)
        return replaced

    def _replace_in_list(self, items: list[Any], path: ConfigPath) -> list[Any]:
        """Replace the secrets in a list, where a secret may follow its flag."""
        replaced: list[Any] = []
        previous_text = ""
        for number, item in enumerate(items):
            item_path = (*path, number)
            replaced.append(self.replace(item, item_path, previous_text))
            previous_text = item if isinstance(item, str) else ""
        return replaced

    def _replace_in_text(self, text: str, path: ConfigPath, previous_text: str) -> str:
        """Replace the secrets in a text; a text that came from a variable refers to that variable."""
        variable_read = self._name_of_value.get(text)
        if variable_read is not None and place_of(path) in _REFERRING_KINDS:
            return _reference(variable_read)
        replaced_pieces: list[str] = []
        for piece, is_secret in secret_pieces(text, path, previous_text):
            if is_secret:
                replaced_pieces.append(self._reference_to_new_variable(piece, path))
            else:
                replaced_pieces.append(piece)
        return "".join(replaced_pieces)

    def _reference_to_new_variable(self, secret: str, path: ConfigPath) -> str:
        """Store a secret in a variable that is named after its path, and return the reference to it."""
        # The config escapes `${` as `$${`; the environment holds the plain value.
        variable_value = secret.replace("$${", "${")
        name = self._free_name(_variable_name(path), variable_value)
        self.variables[name] = variable_value
        return _reference(name)

    def _free_name(self, name: str, value: str) -> str:
        """Return a name, with a number if another value has it already. The same value keeps its name."""
        free_name = name
        number = 1
        while self.variables.get(free_name, value) != value:
            number += 1
            free_name = f"{name}_{number}"
        return free_name


def _variable_name(path: ConfigPath) -> str:
    """Make the name of a variable from the path of a value: ``NEL_SECRET_SERVICES_JUDGE_API_KEY``."""
    parts = [PREFIX]
    for key in path:
        parts.append(_NOT_IN_NAMES.sub("_", str(key)))
    return "_".join(parts).upper()


def _reference(name: str) -> str:
    """Return the reference to a variable, as a config spells it: ``${NAME}``."""
    return f"${{{name}}}"
