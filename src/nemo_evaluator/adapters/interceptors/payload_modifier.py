"""``payload_modifier``: removes, renames and adds parameters and headers."""

from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.adapters import base
from nemo_evaluator.config.compose import deep_merge
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelRequest

# What the asker says is not a parameter, however its keys are called.
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
_HOP: Final = frozenset({"host", "content-length", "connection", "transfer-encoding"})


@dataclass(eq=False)
class Interceptor(base.Interceptor):
    """Remove, then rename, then add; in parameters at any depth, but never inside messages, tools or schemas. What is
    added is merged into objects that are there already, and wins over their values."""

    params_to_remove: list[str] | None = None
    params_to_add: dict[str, Any] | None = None
    params_to_rename: dict[str, str] | None = None
    headers_to_add: dict[str, str] | None = None
    headers_to_remove: list[str] | None = None
    headers_to_rename: dict[str, str] | None = None

    def __post_init__(self) -> None:
        self._remove = frozenset(self.params_to_remove or ())
        self._add = dict(self.params_to_add or {})
        self._rename = dict(self.params_to_rename or {})
        self._named = self._remove | frozenset(self._rename)
        headers_add: dict[str, str] = {}
        for n, v in (self.headers_to_add or {}).items():
            if n.lower() not in _HOP:
                headers_add[n] = str(v)
        self._headers_add = headers_add
        self._headers_remove = frozenset(name.lower() for name in self.headers_to_remove or ())
        headers_rename: dict[str, str] = {}
        for old, new in (self.headers_to_rename or {}).items():
            headers_rename[old.lower()] = new
        self._headers_rename = headers_rename

    async def on_request(self, request: ModelRequest) -> None:
        body = request.body
        if self._remove or self._rename:
            body = self._reshape(body)
        if self._add:
            request.body = deep_merge(body, self._add)
        else:
            request.body = body
        if self._headers_add or self._headers_remove or self._headers_rename:
            request.headers = self._headers(request.headers)

    def _reshape(self, value: JsonDict) -> JsonDict:
        if self._named.isdisjoint(value) and dict not in map(type, value.values()):
            return value
        changed: JsonDict = {}
        for key, item in value.items():
            if key in self._remove:
                continue
            if isinstance(item, dict) and key not in _CONTENT:
                inner: dict[str, Any] | Any = self._reshape(item)
            else:
                inner = item
            changed[self._rename.get(key, key)] = inner
        return changed

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        added = {name.lower() for name in self._headers_add}
        changed: dict[str, str] = {}
        for name, value in headers.items():
            low = name.lower()
            if low in self._headers_remove:
                continue
            new = self._headers_rename.get(low, name)
            if new.lower() not in added and new.lower() not in _HOP:
                changed[new] = value
        return {**changed, **self._headers_add}
