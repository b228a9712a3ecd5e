"""Tools from an OpenAPI document: every POST path that is not part of the server's own life."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.solvers.tools.base import Tool

_NOT_TOOLS: Final = frozenset({"/seed_session", "/verify", "/run", "/health", "/openapi.json", "/docs", "/redoc"})
_REF: Final = "#/components/schemas/"
_PLACE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A tool and the path it is called at; places in the path are filled from the arguments."""

    tool: Tool
    path: str

    @property
    def places(self) -> list[str]:
        """Names of the arguments that go into the path."""
        return _PLACE.findall(self.path)


def endpoints_of(document: JsonDict) -> list[Endpoint]:
    """The tools of a server. Recursive schemas stay recursive, by ``$defs``; all others are written out."""
    schemas = (document.get("components") or {}).get("schemas") or {}
    return list(_endpoints(document.get("paths") or {}, schemas))


def request_schema(document: JsonDict, path: str) -> JsonDict | None:
    """The schema of the body that a path takes; None when the server does not have the path."""
    operation = ((document.get("paths") or {}).get(path) or {}).get("post")
    if operation is None:
        return None
    schemas = (document.get("components") or {}).get("schemas") or {}
    return resolve(_body(operation), schemas)


def _endpoints(paths: JsonDict, schemas: JsonDict) -> Iterator[Endpoint]:
    for path, item in paths.items():
        operation = item.get("post") if isinstance(item, dict) else None
        if operation is None or path in _NOT_TOOLS:
            continue
        name = path.strip("/").replace("/", "_")
        description = operation.get("summary") or operation.get("description") or name
        parameters = resolve(_body(operation), schemas)
        places = _PLACE.findall(path)
        if places:
            parameters = _with_places(parameters, places)
        yield Endpoint(Tool(name, str(description), parameters), path)


def _body(operation: JsonDict) -> JsonDict:
    content = (operation.get("requestBody") or {}).get("content") or {}
    schema: JsonDict = (content.get("application/json") or {}).get("schema") or {}
    return schema or {"type": "object", "properties": {}}


def _with_places(parameters: JsonDict, places: list[str]) -> JsonDict:
    own = {place: {"type": "string"} for place in places}
    required = [*places, *(name for name in parameters.get("required") or [] if name not in places)]
    return {
        **parameters,
        "type": "object",
        "properties": {**own, **(parameters.get("properties") or {})},
        "required": required,
    }


def resolve(schema: JsonDict, schemas: JsonDict) -> JsonDict:
    """A schema that stands alone: references written out, titles dropped, cycles kept in ``$defs``."""
    recursive = {name for name in schemas if _reaches(name, name, schemas)}
    defs: JsonDict = {}
    plain = _expand(schema, schemas, recursive, defs)
    if defs:
        plain = {**plain, "$defs": defs}
    result: JsonDict = plain
    return result


def _expand(node: Any, schemas: JsonDict, recursive: set[str], defs: JsonDict) -> Any:
    if isinstance(node, list):
        return [_expand(part, schemas, recursive, defs) for part in node]
    if not isinstance(node, dict):
        return node
    name = _target(node)
    if name is not None and name in schemas:
        if name not in recursive:
            return _expand(schemas[name], schemas, recursive, defs)
        if name not in defs:
            defs[name] = {}
            defs[name] = _expand(schemas[name], schemas, recursive, defs)
        return {"$ref": f"#/$defs/{name}"}
    # `title` is a label of the generator, except where it is the name of a property.
    return {
        key: {name: _expand(part, schemas, recursive, defs) for name, part in value.items()}
        if key == "properties" and isinstance(value, dict)
        else _expand(value, schemas, recursive, defs)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
    }


def _target(node: JsonDict) -> str | None:
    ref = node.get("$ref")
    return ref.removeprefix(_REF) if isinstance(ref, str) and ref.startswith(_REF) else None


def _reaches(start: str, goal: str, schemas: JsonDict) -> bool:
    """Whether following references from a schema leads back to it."""
    seen: set[str] = set()
    queue = list(_names_in(schemas[start]))
    while queue:
        name = queue.pop()
        if name == goal:
            return True
        if name not in seen and name in schemas:
            seen.add(name)
            queue.extend(_names_in(schemas[name]))
    return False


def _names_in(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for part in node:
            yield from _names_in(part)
    elif isinstance(node, dict):
        name = _target(node)
        if name is not None:
            yield name
        for part in node.values():
            yield from _names_in(part)
