"""Tools of a Gym resource server, listed by its ``/openapi.json`` and called by POST."""

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
    """A tool and the path of its endpoint.

    Attributes:
        path: The path; placeholders in it are filled from the arguments.
    """

    path: str


def endpoints_of(document: JsonDict) -> list[GymTool]:
    """Find the tools in a server's OpenAPI document.

    Recursive schemas are kept as ``$defs``; all other references are replaced by what they refer to.

    Args:
        document: The OpenAPI document.

    Returns:
        One tool per path that takes POST, except the endpoints of the Gym protocol.
    """
    endpoints = []
    for path, item in as_dict(document.get("paths")).items():
        operation = as_dict(item).get("post")
        if operation is None or path in _NOT_TOOLS:
            continue
        name = path.strip("/").replace("/", "_")
        description = operation.get("summary") or operation.get("description") or name
        parameters = _with_path_arguments(path, _body(operation, document))
        endpoints.append(GymTool(name, str(description), parameters, path=path))
    return endpoints


def _with_path_arguments(path: str, parameters: JsonDict) -> JsonDict:
    """Add the placeholders of a path to a tool's parameters, as required texts."""
    placeholders = _PLACE.findall(path)
    if not placeholders:
        return parameters
    properties: JsonDict = {name: {"type": "string"} for name in placeholders}
    properties |= parameters.get("properties") or {}
    required = list(placeholders)
    for name in parameters.get("required") or []:
        if name not in placeholders:
            required.append(name)
    return {**parameters, "type": "object", "properties": properties, "required": required}


def _body(operation: JsonDict, document: JsonDict) -> JsonDict:
    """Return the schema of an operation's JSON body; that of an empty object when there is none."""
    content = as_dict(as_dict(operation.get("requestBody")).get("content"))
    schema = as_dict(as_dict(content.get("application/json")).get("schema"))
    schemas = as_dict(as_dict(document.get("components")).get("schemas"))
    return resolve(schema or {"type": "object", "properties": {}}, schemas)


def resolve(schema: JsonDict, schemas: JsonDict) -> JsonDict:
    """Make a schema self-contained.

    Args:
        schema: The schema.
        schemas: The components that it may refer to.

    Returns:
        The schema without titles and with references replaced by what they refer to; recursive ones become ``$defs``.
    """
    expansion = _Expansion(schemas)
    resolved: JsonDict = expansion.expand(schema)
    if expansion.defs:
        return {**resolved, "$defs": expansion.defs}
    return resolved


class _Expansion:
    """Replaces the references in one schema.

    Attributes:
        defs: The recursive schemas that were referred to so far.
    """

    def __init__(self, schemas: JsonDict) -> None:
        self.defs: JsonDict = {}
        self._schemas = schemas
        references: dict[str, list[str]] = {}
        for name, component in schemas.items():
            references[name] = _REFERRED.findall(dumps(component).decode())
        self._recursive = {name for name in schemas if name in _reached(name, references)}

    def expand(self, node: Any) -> Any:
        """Expand one node of the schema and everything below it."""
        if isinstance(node, list):
            return [self.expand(part) for part in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith(_REF):
            name = reference.removeprefix(_REF)
            if name in self._schemas:
                return self._referred(name)
        expanded: JsonDict = {}
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                expanded[key] = {name: self.expand(part) for name, part in value.items()}
            elif key == "title" and isinstance(value, str):
                # A label of the generator. A property named `title` is a schema, not a text.
                continue
            else:
                expanded[key] = self.expand(value)
        return expanded

    def _referred(self, name: str) -> Any:
        """Return the expanded component, or a reference to ``$defs`` if the component is recursive."""
        if name not in self._recursive:
            return self.expand(self._schemas[name])
        if name not in self.defs:
            # An entry before the expansion, which comes back to this component.
            self.defs[name] = {}
            self.defs[name] = self.expand(self._schemas[name])
        return {"$ref": f"#/$defs/{name}"}


def _reached(start: str, references: dict[str, list[str]]) -> set[str]:
    """Return the names of the schemas that one schema refers to, directly or indirectly."""
    reached: set[str] = set()
    queue = [start]
    while queue:
        name = queue.pop()
        new_names = set(references.get(name, ())) - reached
        reached |= new_names
        queue += new_names
    return reached


class GymSession:
    """The tools of the server, for one problem.

    Attributes:
        name: The name of the service.
        close: Closes the connection to the server.
    """

    def __init__(
        self, name: str, client: GymClient, cookies: aiohttp.CookieJar, endpoints: list[GymTool]
    ) -> None:
        """Create a session; nothing is sent yet.

        Args:
            name: The name of the service.
            client: The connection to the server.
            cookies: The cookies of the session.
            endpoints: The server's tools.
        """
        self.name = name
        self._client = client
        self._cookies = cookies
        self._endpoints = {endpoint.name: endpoint for endpoint in endpoints}
        self.close = client.close

    async def seed(self, schema: JsonDict, metadata: JsonDict) -> None:
        """Start a session on the server with those fields of the problem that its schema names.

        Nothing is sent when the problem lacks a required field.

        Args:
            schema: The schema of the request.
            metadata: The fields of the problem.

        Raises:
            TransportError: The server failed or rejected the request.
            TimeoutError: The server did not reply within 30 seconds.
        """
        for name in schema.get("required") or []:
            if name not in metadata:
                return
        properties = schema.get("properties") or {}
        body = {name: metadata[name] for name in properties if name in metadata}
        status, reply_text = await self._post(_SEED, body, _DISCOVERY_TIMEOUT)
        if status >= 400:
            raise TransportError(
                f"{self.name}: {_SEED} answered {status}: {reply_text[:300]}", status=status
            )

    async def tools(self) -> list[Tool]:
        """List the server's tools."""
        return list(self._endpoints.values())

    async def call(self, tool: str, arguments: JsonDict, timeout: float) -> ToolResult:
        """Send the arguments to the tool's endpoint.

        Args:
            tool: The tool's name.
            arguments: Its arguments.
            timeout: Seconds for the call.

        Returns:
            The reply. Missing arguments, a timeout and a status of 400 or above are errors that the model sees.

        Raises:
            TransportError: The server cannot be reached.
        """
        path = self._endpoints[tool].path
        placeholders = _PLACE.findall(path)
        mistake = _mistake_in_path(placeholders, arguments)
        if mistake is not None:
            return ToolResult(mistake, is_error=True)
        for placeholder in placeholders:
            path = path.replace(f"{{{placeholder}}}", quote(str(arguments[placeholder]), safe=""))
        body = {name: value for name, value in arguments.items() if name not in placeholders}
        try:
            status, reply_text = await self._post(path, body, timeout)
        except TimeoutError:
            return ToolResult(f"The tool timed out after {timeout:g} s.", is_error=True)
        if status >= 400:
            return ToolResult(f"HTTP {status}: {reply_text[:_ERROR_LIMIT]}", is_error=True)
        return ToolResult(_readable(reply_text))

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


def _mistake_in_path(placeholders: list[str], arguments: JsonDict) -> str | None:
    """Return what the model has to know about arguments that cannot be put into a path; None if all can."""
    missing = [name for name in placeholders if name not in arguments]
    if missing:
        return f"Required arguments are missing: {', '.join(missing)}."
    for name in placeholders:
        # HTTP clients resolve these as relative path segments, so the request would reach another endpoint.
        if str(arguments[name]) in ("", ".", ".."):
            return f"The argument {name!r} must not be empty, '.' or '..'."
    return None


def _readable(reply_text: str) -> str:
    """Return a reply as the model sees it: a JSON text without its quotes, other JSON indented."""
    try:
        value: Any = orjson.loads(reply_text)
    except orjson.JSONDecodeError:
        return reply_text
    if isinstance(value, str):
        return value
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


class GymTools:
    """The tools of one Gym server; each problem has a session with cookies of its own.

    Attributes:
        name: The name of the service.
    """

    def __init__(self, name: str, base_url: str) -> None:
        """Create a tool source; nothing is sent yet.

        Args:
            name: The name of the service.
            base_url: Its address.
        """
        self.name = name
        self._base = base_url
        self._document: JsonDict | None = None
        self._lock = asyncio.Lock()

    async def open(self, task: SeedResult, sandbox: Sandbox | None) -> GymSession:
        """Open a session for one problem, and seed it if the server has an endpoint for that.

        Args:
            task: The problem.
            sandbox: Not used.

        Raises:
            TransportError: The server cannot be reached, or its tools cannot be read.
            TimeoutError: The server did not reply to the seed request within 30 seconds.
        """
        # Calls have side effects and must not be resent, so connections that the server may have closed are not reused.
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
        """Return the name of the service; its port may differ from run to run."""
        return {"kind": "gym", "service": self.name}

    async def _discover(self, client: GymClient) -> JsonDict:
        """Return the server's OpenAPI document, which is fetched once."""
        async with self._lock:
            if self._document is None:
                self._document = await self._fetch_document(client)
            return self._document

    async def _fetch_document(self, client: GymClient) -> JsonDict:
        url = f"{client.base}/openapi.json"
        try:
            status, body = await client.send("GET", "/openapi.json", timeout=_DISCOVERY_TIMEOUT)
            if status != 200:
                raise TransportError(f"{url} answered {status}", status=status)
            document: JsonDict = orjson.loads(body)
        except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError) as error:
            raise TransportError(
                f"cannot read the tools of {self.name!r} at {url}: {error!r}"
            ) from error
        return document


def _cookies(task: SeedResult) -> aiohttp.CookieJar:
    """Return the cookies of the rollout, emptied for a retry: a Gym server that judges sees what the tools did."""
    if not isinstance(task, GymSeed) or task.cookies is None:
        return new_jar()
    if task.row is not None:
        task.cookies.clear()
    return task.cookies
