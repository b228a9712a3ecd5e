"""The servers behind ``gym://``: somebody else's, or one that is started here and gone with the benchmark."""

from __future__ import annotations

import asyncio
import importlib.util
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nemo_evaluator.core.errors import MissingExtraError, TransportError, UsageError
from nemo_evaluator.core.registry import find_file, load_object
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.datasets.settings import lock_file, mirror_dir

TOKEN: Final = "NEL_SERVE_TOKEN"
_GYM: Final = "nemo_gym"


class GymServer:
    """A server that somebody else runs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.token: Secret | None = None

    async def up(self) -> None:
        """Start it, if that is ours to do."""

    def lost(self) -> str | None:
        """Why it will not come back."""
        return None

    async def stop(self) -> None:
        """Stop it, if that is ours to do."""

    @property
    def identity(self) -> str:
        """What it serves, as far as can be told from here."""
        return self.url


class ManagedGymServer(GymServer):
    """A server that is started with the first request, and gone with the benchmark."""

    def __init__(self, words: Sequence[str], startup_timeout: float, token: Secret | None) -> None:
        # By name: what starts and watches servers lies in a room above this one.
        self._port: int = load_object("nemo_evaluator.services.process:free_port")()
        super().__init__(f"http://127.0.0.1:{self._port}")
        self.token, self._identity = token, " ".join(words)
        env = {"PORT": str(self._port)} | ({TOKEN: token.reveal()} if token else {})
        env |= {"NEL_DATA_MIRROR": str(mirror)} if (mirror := mirror_dir()) else {}
        launch = load_object("nemo_evaluator.services.base:Launch")(
            argv=[word.replace("{port}", str(self._port)) for word in words],
            port=self._port,
            base_path="",
            health_paths=("/health", "/openapi.json"),
            startup_timeout=startup_timeout,
            env=env | {"NEL_DATA_LOCK": str(lock_file())},
        )
        self._folder = tempfile.TemporaryDirectory(prefix="nel-gym-")
        log = Path(self._folder.name) / "server.log"
        self._server = load_object("nemo_evaluator.services.process:ManagedServer")("gym", launch, log)
        self._starting: asyncio.Task[None] | None = None

    async def up(self) -> None:
        """Start it, once. Raises TransportError with its last words when it does not come up."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._server.start(lambda _: None))
        await asyncio.shield(self._starting)

    def lost(self) -> str | None:
        """How it ended, with the last lines of its log."""
        error: TransportError | None = self._server.crash()
        return error.message if error is not None else None

    async def stop(self) -> None:
        """Stop it with everything it started."""
        await self._server.stop()
        self._folder.cleanup()

    @property
    def identity(self) -> str:
        """Its command, without the port it got."""
        return self._identity


def managed_server(uri: str, token: Secret | None, startup_timeout: float) -> ManagedGymServer:
    """The server that a ``gym://`` URI asks to be started."""
    name = uri.partition("://")[2]
    kind, colon, rest = name.partition(":")
    if colon and kind == "cmd":
        return ManagedGymServer(["bash", "-c", rest], startup_timeout, token)
    if colon and kind == "module":
        app = rest if ":" in rest else f"{rest}:app"
        if app.partition(".")[0] == _GYM and importlib.util.find_spec(_GYM) is None:
            raise MissingExtraError("NeMo Gym", extra="gym")
        words = ["-m", "uvicorn", app, "--host", "127.0.0.1", "--port", "{port}"]
        return ManagedGymServer([sys.executable, *words], startup_timeout, token)
    is_file = kind.endswith(".py")
    if not name or ("/" in name and not is_file):
        hint = "write gym://host:port, gym://cmd:COMMAND, gym://module:PACKAGE or gym://BENCHMARK"
        raise UsageError(f"{uri} names no Gym server", hint=hint)
    if is_file:
        name = f"{find_file(kind)}{colon}{rest}"
    own = token or Secret(secrets.token_urlsafe(24))
    words = ["-m", "nemo_evaluator.cli.main", "serve", "--benchmark", name, "--port", "{port}"]
    return ManagedGymServer([sys.executable, *words], startup_timeout, own)
