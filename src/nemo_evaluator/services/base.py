"""What a kind of service gives (a launch plan) and what its users get (an address)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunningService:
    """Where a service is reached. ``api_key`` is the token of this run when the server is ours and asks for one."""

    name: str
    url: str
    api_key: Secret | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """How one server is started and how its readiness is asked: pure data, the same for every executor.

    ``{secret_fd}`` in ``argv`` becomes the number of a pipe from which the server reads ``api_key``, so that the key is
    in no file, no argument list and no environment. ``host`` is the machine on which it is reached.
    """

    argv: Sequence[str]
    port: int
    host: str = "127.0.0.1"
    base_path: str = "/v1"
    health_paths: Sequence[str] = ("/health",)
    startup_timeout: float = 600.0
    env: dict[str, str] = field(default_factory=dict)
    api_key: Secret | None = None
    stop_grace: float = 10.0

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://{self.host}:{self.port}{self.base_path}"

    @property
    def health_urls(self) -> list[str]:
        """The server is ready when one of them answers 200."""
        return [f"http://{self.host}:{self.port}{path}" for path in self.health_paths]


class ServiceKind(Protocol):
    """One kind of managed service, e.g. ``llama_cpp``."""

    def plan(self, name: str, service: Any) -> Launch:
        """The launch plan; raises a NelError with the fix when something needed is absent. Starts nothing."""
        ...

    def identity(self, service: Any) -> JsonDict:
        """What changes answers: weights and settings, never ports, paths or dates."""
        ...
