"""``payload_modifier``: removes, renames and adds parameters and headers."""

from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.adapters import base
from nemo_evaluator.config.compose import deep_merge
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelRequest

# Fields of a request that hold content. Keys inside them are not parameters, whatever their names.
_CONTENT: Final = frozenset(
    {
        "messages",
        "prompt",
        "input",
        "instructions",
        "tools",
        "functions",
        "response_format",
        "text",
        "system",
    }
)
# Headers that belong to one connection.
_HOP: Final = frozenset({"host", "content-length", "connection", "transfer-encoding"})


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Removes, then renames, then adds parameters at any depth, but never inside messages, tools or schemas.

    Added objects are merged into existing ones, and their values win.
    """

    params_to_remove: list[str] | None = None
    params_to_add: dict[str, Any] | None = None
    params_to_rename: dict[str, str] | None = None
    headers_to_add: dict[str, str] | None = None
    headers_to_remove: list[str] | None = None
    headers_to_rename: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Prepare the changes of parameters and headers; headers of a single connection are never set."""
        self._remove = frozenset(self.params_to_remove or ())
        self._rename = dict(self.params_to_rename or {})
        self._removed_or_renamed = self._remove | frozenset(self._rename)
        self._add = dict(self.params_to_add or {})
        # Without objects to merge, one dict operation adds the parameters.
        self._adds_objects = any(isinstance(value, dict) for value in self._add.values())
        self._headers_add: dict[str, str] = {}
        for name, value in (self.headers_to_add or {}).items():
            if name.lower() not in _HOP:
                self._headers_add[name] = str(value)
        self._headers_remove = frozenset(name.lower() for name in self.headers_to_remove or ())
        self._headers_rename: dict[str, str] = {}
        for old_name, new_name in (self.headers_to_rename or {}).items():
            self._headers_rename[old_name.lower()] = new_name
        self._changes_headers = bool(
            self._headers_add or self._headers_remove or self._headers_rename
        )

    def on_request(self, request: ModelRequest) -> None:
        """Change the parameters and headers of a request."""
        body = request.body
        if self._removed_or_renamed:
            body = self._reshape(body)
        if self._adds_objects:
            body = deep_merge(body, self._add)
        elif self._add:
            body = body | self._add
        request.body = body
        if self._changes_headers:
            request.headers = self._headers(request.headers)

    def _reshape(self, value: JsonDict) -> JsonDict:
        """Remove and rename the parameters of an object and of the objects inside it."""
        if self._removed_or_renamed.isdisjoint(value) and dict not in map(type, value.values()):
            return value
        new_parameters: JsonDict = {}
        for key, item in value.items():
            if key in self._remove:
                continue
            new_key = self._rename.get(key, key)
            if isinstance(item, dict) and key not in _CONTENT:
                new_parameters[new_key] = self._reshape(item)
            else:
                new_parameters[new_key] = item
        return new_parameters

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        """Remove, rename and add headers."""
        added_names = {name.lower() for name in self._headers_add}
        new_headers: dict[str, str] = {}
        for name, value in headers.items():
            lower_name = name.lower()
            if lower_name in self._headers_remove:
                continue
            new_name = self._headers_rename.get(lower_name, name)
            if new_name.lower() not in added_names and new_name.lower() not in _HOP:
                new_headers[new_name] = value
        return {**new_headers, **self._headers_add}
