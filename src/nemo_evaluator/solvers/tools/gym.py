"""Tools of a Gym resource server, found at ``/openapi.json`` and called by POST."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict, SeedResult
from nemo_evaluator.environments.schemes.gym_client import GymClient, new_jar
from nemo_evaluator.environments.schemes.gym_wire import GymSeed
from nemo_evaluator.sandbox.base import Sandbox
from nemo_evaluator.solvers.tools.base import Tool, ToolResult

_SEED: Final = "/seed_session"
_ERROR_LIMIT: Final = 4096
_DISCOVERY_TIMEOUT: Final = 30.0
_NOT_TOOLS: Final = frozenset(
    {"/seed_session", "/verify", "/run", "/health", "/openapi.json", "/docs", "/redoc"}
)
_REF: Final = "#/components/schemas/"
_REFERRED: Final = re.compile(rf'"\$ref":"{_REF}([^"]+)"')
_PLACE: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class GymTool(Tool):
    """A tool and the path it is called at; places in the path are filled from the arguments."""

    path: str


def endpoints_of(document: JsonDict) -> list[GymTool]:
    """The tools of a server. Recursive schemas stay recursive, by ``$defs``; all others are written out."""
    found = []
    for path, item in as_dict(document.get("paths")).items():
        operation = as_dict(item).get("post")
        if operation is None or path in _NOT_TOOLS:
            continue
        name = path.strip("/").replace("/", "_")
        description = operation.get("summary") or operation.get("description") or name
        parameters = _body(operation, document)
        places = _PLACE.findall(path)
        if places:
            required = [
                *places,
                *(one for one in parameters.get("required") or [] if one not in places),
            ]
            properties = {place: {"type": "string"} for place in places} | (
                parameters.get("properties") or {}
            )
            parameters |= {"type": "object", "properties": properties, "required": required}
        found.append(GymTool(name, str(description), parameters, path=path))
    return found


def _body(operation: JsonDict, document: JsonDict) -> JsonDict:
    content = as_dict(as_dict(operation.get("requestBody")).get("content"))
    schema = as_dict(as_dict(content.get("application/json")).get("schema"))
    known = as_dict(as_dict(document.get("components")).get("schemas"))
    return resolve(schema or {"type": "object", "properties": {}}, known)


def resolve(schema: JsonDict, schemas: JsonDict) -> JsonDict:
    """A schema that stands alone: references written out, titles dropped, cycles kept in ``$defs``."""
    named = {name: _REFERRED.findall(dumps(one).decode()) for name, one in schemas.items()}
    recursive = {name for name in schemas if name in _reached(name, named)}
    defs: JsonDict = {}

    def expand(node: Any) -> Any:
        if isinstance(node, list):
            return [expand(part) for part in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref")).removeprefix(_REF)
        if name in schemas and node.get("$ref") == f"{_REF}{name}":
            if name not in recursive:
                return expand(schemas[name])
            if name not in defs:
                defs[name] = {}
                defs[name] = expand(schemas[name])
            return {"$ref": f"#/$defs/{name}"}
        plain: JsonDict = {}
        for key, value in node.items():
            # `title` is a label of the generator, except where it is the name of a property.
            if key == "properties" and isinstance(value, dict):
                plain[key] = {own: expand(part) for own, part in value.items()}
            elif not (key == "title" and isinstance(value, str)):
                plain[key] = expand(value)
        return plain

    whole: JsonDict = expand(schema)
    return {**whole, "$defs": defs} if defs else whole


def _reached(start: str, named: dict[str, list[str]]) -> set[str]:
    """The schemas that following references from one leads to."""
    found: set[str] = set()
    queue = [start]
    while queue:
        fresh = set(named.get(queue.pop(), ())) - found
        found |= fresh
        queue += fresh
    return found


class GymSession:
    """The tools of the server, for one problem."""

    def __init__(
        self, name: str, client: GymClient, cookies: aiohttp.CookieJar, endpoints: list[GymTool]
    ) -> None:
        self.name = name
        self._client = client
        self._cookies = cookies
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self.close = client.close

    async def seed(self, schema: JsonDict, metadata: JsonDict) -> None:
        """Begin a session with those fields of the problem that the server knows."""
        known = schema.get("properties") or {}
        if any(name not in metadata for name in schema.get("required") or []):
            return
        body = {name: metadata[name] for name in known if name in metadata}
        status, text = await self._post(_SEED, body, _DISCOVERY_TIMEOUT)
        if status >= 400:
            raise TransportError(
                f"{self.name}: {_SEED} answered {status}: {text[:300]}", status=status
            )

    async def tools(self) -> list[Tool]:
        return list(self._endpoints.values())

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """POST the arguments; an answer of 400 and above is told to the model."""
        path = self._endpoints[tool].path
        places = _PLACE.findall(path)
        missing = [place for place in places if place not in arguments]
        if missing:
            return ToolResult(
                f"Required arguments are missing: {', '.join(missing)}.", is_error=True
            )
        # A client takes these for steps up the path: to another tool, or to one that is none.
        bad = [place for place in places if str(arguments[place]) in ("", ".", "..")]
        if bad:
            return ToolResult(
                f"The argument {bad[0]!r} must not be empty, '.' or '..'.", is_error=True
            )
        for place in places:
            path = path.replace(f"{{{place}}}", quote(str(arguments[place]), safe=""))
        body = {name: value for name, value in arguments.items() if name not in places}
        try:
            status, text = await self._post(path, body, timeout)
        except TimeoutError:
            return ToolResult(f"The tool timed out after {timeout:g} s.", is_error=True)
        if status >= 400:
            return ToolResult(f"HTTP {status}: {text[:_ERROR_LIMIT]}", is_error=True)
        try:
            value: Any = orjson.loads(text)
        except orjson.JSONDecodeError:
            return ToolResult(text)
        return ToolResult(
            value
            if isinstance(value, str)
            else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        )

    async def _post(self, path: str, body: JsonDict, timeout: float) -> tuple[int, str]:
        try:
            status, reply = await self._client.send(
                "POST", path, orjson.dumps(body), cookies=self._cookies, timeout=timeout
            )
        except aiohttp.ClientError as error:
            raise TransportError(
                f"tool server {self.name!r} cannot be reached: {error!r}"
            ) from error
        return status, reply.decode("utf-8", "replace")


class GymTools:
    """One server; cookies are not shared: each problem is a session of its own."""

    def __init__(self, name: str, base_url: str) -> None:
        self.name = name
        self._base = base_url
        self._document: JsonDict | None = None
        self._lock = asyncio.Lock()

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> GymSession:
        """A session, seeded where the server asks for it and the problem has what it asks for."""
        # A call has effects, so it is never sent twice; a connection that the server may have closed is not used again.
        client = GymClient(self._base, keep=False)
        try:
            document = await self._discover(client)
            session = GymSession(
                self.name, client, _cookies(task), endpoints=endpoints_of(document)
            )
            operation = as_dict(as_dict(document.get("paths")).get(_SEED)).get("post")
            if operation is not None:
                await session.seed(
                    _body(operation, document), getattr(task, "row", None) or task.metadata
                )
        except BaseException:
            await client.close()
            raise
        return session

    def describe(self) -> JsonDict:
        """The service by its name: the port it got is not part of what it is."""
        return {"kind": "gym", "service": self.name}

    async def _discover(self, client: GymClient) -> JsonDict:
        async with self._lock:
            if self._document is None:
                url = f"{client.base}/openapi.json"
                try:
                    status, body = await client.send(
                        "GET", "/openapi.json", timeout=_DISCOVERY_TIMEOUT
                    )
                    if status != 200:
                        raise TransportError(f"{url} answered {status}", status=status)
                    self._document = orjson.loads(body)
                except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
                    raise TransportError(
                        f"cannot read the tools of {self.name!r} at {url}: {error!r}"
                    ) from error
            return self._document


def _cookies(task: SeedResult) -> aiohttp.CookieJar:
    """Those of the rollout, so that a Gym that judges sees what the tools did in it; a new try begins a new session."""
    if not isinstance(task, GymSeed) or task.cookies is None:
        return new_jar()
    if task.row is not None:
        task.cookies.clear()
    return task.cookies
