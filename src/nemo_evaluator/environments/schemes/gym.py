"""``gym://``: problems and verdicts from a Gym server that is running (``gym://host:port``), or that nel starts.

nel starts ``gym://cmd:COMMAND`` (with ``PORT`` in its environment), ``gym://module:PACKAGE`` (an ASGI ``app``), and
``gym://BENCHMARK`` (with ``nel serve``).
"""

import asyncio
import importlib.util
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import parse_qs

from aiohttp import CookieJar

from nemo_evaluator.core.errors import (
    MissingExtraError,
    NotFoundError,
    SeedError,
    TransportError,
    UsageError,
)
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.core.registry import config_folder, find_file
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict, SeedResult, VerifyResult
from nemo_evaluator.datasets import open_rows
from nemo_evaluator.datasets.settings import lock_file, mirror_dir
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.schemes.gym_client import GymClient, Lost, new_jar
from nemo_evaluator.environments.schemes.gym_wire import (
    GymSeed,
    native_response,
    native_row,
    native_seed,
    seed_of,
    verdict_of,
)
from nemo_evaluator.sandbox.base import Sandbox

Protocol = Literal["evaluator", "native"]
# Whose number a reward of a server is, in rows.
_SERVER: Final = "the Gym server"
_VERSION: Final = "1"
_PLACE: Final = re.compile(r"[\w.\-]+:\d+/?")
_QUERY: Final = ("protocol", "data")
_DATA_HINT: Final = "name the rows with ?data=FILE.jsonl or params.data: a native Gym server judges, and hands out none"
TOKEN: Final = "NEL_SERVE_TOKEN"
_GYM: Final = "nemo_gym"


class GymServer:
    """A Gym server: an external one, or one that nel starts and stops.

    Args:
        url: The URL of an external server.
        token: The bearer token, if the server requires one.
        words: The command of a server that nel manages. It starts before the first request and stops with the
            benchmark.
        startup_timeout: The timeout of the start in seconds.
    """

    def __init__(
        self,
        url: str,
        token: Secret | None,
        words: Sequence[str] = (),
        startup_timeout: float = 60.0,
    ) -> None:
        # The URL or the command is all that nel knows about the server's problems and scorer.
        self.url = url
        self.identity = " ".join(words) or url
        self.token = token
        # For a server that nel started: returns why it will not come back.
        self.lost: Lost | None = None
        self._starting: asyncio.Task[None] | None = None
        self._server: Any = None
        if words:
            port = free_port()
            self.url = f"http://127.0.0.1:{port}"
            self.lost = self._crash
            environment = {"PORT": str(port), "NEL_DATA_LOCK": str(lock_file())}
            if token:
                environment[TOKEN] = token.reveal()
            mirror = mirror_dir()
            if mirror:
                environment["NEL_DATA_MIRROR"] = str(mirror)
            # Imported here because most servers are not managed by nel.
            from nemo_evaluator.servers.launch import Launch  # noqa: PLC0415
            from nemo_evaluator.servers.process import ManagedServer  # noqa: PLC0415

            launch = Launch(
                argv=[argument.replace("{port}", str(port)) for argument in words],
                port=port,
                base_path="",
                health_paths=("/health", "/openapi.json"),
                startup_timeout=startup_timeout,
                env=environment,
            )
            self._folder = tempfile.TemporaryDirectory(prefix="nel-gym-")
            log = Path(self._folder.name) / "server.log"
            self._server = ManagedServer("gym", launch, log)

    async def up(self) -> None:
        """Start the server if nel manages it; further calls wait for the same start.

        Raises:
            TransportError: The server did not start; the message has the last lines of its log.
        """
        if self._server is not None:
            self._starting = self._starting or asyncio.ensure_future(
                self._server.start(lambda _: None)
            )
            await asyncio.shield(self._starting)

    def _crash(self) -> str | None:
        """Return why the managed server ended, with the last lines of its log; None while it runs."""
        error: TransportError | None = self._server.crash()
        return error.message if error is not None else None

    async def stop(self) -> None:
        """Stop the server if nel manages it."""
        if self._server is not None:
            await self._server.stop()
            self._folder.cleanup()


def managed_server(uri: str, token: Secret | None, startup_timeout: float) -> GymServer:
    """Return the server that nel starts for a ``gym://`` URI.

    Args:
        uri: The URI.
        token: The bearer token, if the server requires one.
        startup_timeout: The timeout of the start in seconds.

    Raises:
        UsageError: The URI does not name a server.
        MissingExtraError: The URI names a module of NeMo Gym, which is not installed.
    """
    name = uri.partition("://")[2]
    prefix, colon, target = name.partition(":")
    is_file = prefix.endswith(".py")
    if colon and prefix == "cmd":
        command = ["bash", "-c", target]
    elif colon and prefix == "module":
        app = target if ":" in target else f"{target}:app"
        if app.partition(".")[0] == _GYM and importlib.util.find_spec(_GYM) is None:
            raise MissingExtraError("NeMo Gym", extra="gym")
        command = [sys.executable, "-m", "uvicorn", app, "--host", "127.0.0.1", "--port", "{port}"]
    elif not name or ("/" in name and not is_file):
        hint = "write gym://host:port, gym://cmd:COMMAND, gym://module:PACKAGE or gym://BENCHMARK"
        raise UsageError(f"{uri} names no Gym server", hint=hint)
    else:
        benchmark = f"{find_file(prefix)}{colon}{target}" if is_file else name
        command = [
            sys.executable,
            "-m",
            "nemo_evaluator.cli.main",
            "serve",
            "--benchmark",
            benchmark,
            "--port",
            "{port}",
        ]
        token = token or Secret(secrets.token_urlsafe(24))
    return GymServer("", token, command, startup_timeout=startup_timeout)


async def verify_native(
    client: GymClient, response: str, seed: SeedResult, jar: CookieJar
) -> VerifyResult:
    """Return NeMo Gym's verdict on a text.

    It starts the session on the server, unless a tool of the solver has already started it.

    Args:
        client: The client of the server.
        response: The text of the answer.
        seed: The problem.
        jar: The cookies of the rollout.
    """
    row = native_row(seed)
    if not len(jar):
        try:
            await client.post("/seed_session", row, jar)
        except NotFoundError:
            # A server without state has no such route.
            pass
    body = row | {"response": native_response(response)}
    return _verdict_of_server(await client.post("/verify", body, jar))


def _verdict_of_server(reply: JsonDict) -> VerifyResult:
    """Return the verdict in a reply, which says that the reward is the server's."""
    verdict = verdict_of(reply)
    verdict.scoring_details["scored_by"] = _SERVER
    return verdict


class GymVerifier:
    """A native Gym server that scores the answers of another benchmark (``verifier:``).

    Attributes:
        fingerprint: The identity of the verifier.
    """

    def __init__(self, service: str, url: str, lost: Lost | None = None) -> None:
        self._client = GymClient(url, lost=lost)
        self.fingerprint = digest(["gym verifier", _VERSION, service])

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Return the server's verdict on an answer."""
        return await verify_native(self._client, response, seed, jar=new_jar())

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


class GymEnvironment(EvalEnvironment):
    """Problems and verdicts over HTTP; with ``data``, a file holds the problems and the server is native.

    Args:
        uri: The URI of the server.
        num_examples: The number of problems, from the first; None for all.
        protocol: ``evaluator`` (that of ``nel serve``; the default) or ``native`` (NeMo Gym's own; the default with
            ``data``).
        data: The file of NeMo Gym rows.
        token: The bearer token; by default that in ``NEL_SERVE_TOKEN``.
        timeout: The timeout of a request in seconds.
        startup_timeout: The timeout of the server's start in seconds.

    Raises:
        UsageError: The URI or the protocol is invalid, or there are no problems.
    """

    def __init__(
        self,
        uri: str,
        num_examples: int | None = None,
        protocol: Protocol | None = None,
        data: str | None = None,
        token: str | None = None,
        timeout: float = 120.0,
        startup_timeout: float = 60.0,
    ) -> None:
        name = uri.partition("://")[2]
        address, _, query = name.partition("?")
        is_running_server = _PLACE.fullmatch(address) is not None
        if is_running_server and query:
            settings = _query_settings(uri, query)
            protocol = settings.get("protocol", protocol)  # type: ignore[assignment]
            data = settings.get("data", data)
        if protocol not in (None, "evaluator", "native"):
            raise UsageError(
                f"{uri}: there is no protocol {protocol!r}", hint="protocol is evaluator or native"
            )
        native = protocol == "native" or (protocol is None and data is not None)
        if native and data is None:
            raise UsageError(f"{uri} has no problems", hint=_DATA_HINT)
        token_text = token or os.environ.get(TOKEN)
        secret = Secret(token_text) if token_text else None
        if is_running_server:
            server = GymServer(f"http://{address.rstrip('/')}", secret)
        else:
            server = managed_server(uri, secret, startup_timeout)
        self.name = f"gym_{safe_name(name)}"
        self._server = server
        self._limit = num_examples
        self._client = GymClient(server.url, token=server.token, timeout=timeout, lost=server.lost)
        self._rows = None
        if native and data is not None:
            self._dataset = self._rows = open_rows(Path(data), config_folder.get())[:num_examples]

    async def dataset_size(self) -> int:
        """Return the number of rows, or of the server's problems.

        Raises:
            TransportError: The server did not return a size.
        """
        if self._rows is not None:
            return len(self._rows)
        await self._server.up()
        reply = await self._client.get("/dataset_size")
        size = reply.get("size") if isinstance(reply, dict) else None
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise TransportError(
                f"{self._server.url}/dataset_size gave no size: {str(reply)[:200]}"
            )
        if self._limit is None:
            return size
        return min(size, self._limit)

    async def prepare(self) -> None:
        """Check that the server is up before the first answer is generated."""
        await self._server.up()
        if self._rows is not None:
            try:
                await self._client.get("/openapi.json")
            except NotFoundError:
                # The server responds; not every server describes its routes.
                pass

    async def seed(self, idx: int) -> SeedResult:
        """Return a problem, from the rows or from the server.

        Raises:
            SeedError: The row is not a Gym row.
        """
        jar = new_jar()
        if self._rows is None:
            await self._server.up()
            return seed_of(await self._client.post("/seed_session", {"idx": idx}, jar), idx, jar)
        try:
            return native_seed(self._rows[idx], idx, jar)
        except (KeyError, TypeError, AttributeError) as error:
            raise SeedError(
                f"row {idx} of {self._rows.source} is not a Gym row: {type(error).__name__}: {error}",
                hint="a row has responses_create_params.input",
            ) from error

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Score an answer when only the target and the metadata of its problem are known."""
        return await self.verify_answer(response, SeedResult("", expected, metadata))

    async def verify_answer(
        self, response: str, seed: SeedResult, sandbox: Sandbox | None = None
    ) -> VerifyResult:
        """Return the server's verdict on an answer."""
        await self._server.up()
        gym_seed = seed if isinstance(seed, GymSeed) else None
        jar = gym_seed.cookies if gym_seed is not None else None
        if jar is None:
            jar = new_jar()
        if self._rows is not None:
            return await verify_native(self._client, response, seed, jar=jar)
        body: JsonDict = {
            "response": response,
            "expected": seed.expected_answer,
            "metadata": seed.metadata,
        }
        if gym_seed is not None:
            body["idx"] = gym_seed.idx
        return _verdict_of_server(await self._client.post("/verify", body, jar))

    def scorer_fingerprint(self) -> str:
        """Identify the server and its protocol; nel does not know the server's code."""
        return digest(["gym", _VERSION, self._server.identity, self._rows is not None])

    async def close(self) -> None:
        """Close the connections, and stop a server that nel manages."""
        await self._client.close()
        await self._server.stop()


def _query_settings(uri: str, query: str) -> dict[str, str]:
    """Return the settings in the query of a URI; raise UsageError for an unknown one."""
    settings = {key: values[-1] for key, values in parse_qs(query).items()}
    unknown = sorted(set(settings) - set(_QUERY))
    if unknown:
        raise UsageError(
            f"{uri}: unknown setting {unknown[0]!r}", hint=f"known: {', '.join(_QUERY)}"
        )
    return settings


KIND: Final = Kind(build=GymEnvironment)
