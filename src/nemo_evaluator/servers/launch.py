"""The launch plan of a server, as data."""

from collections.abc import Callable, Sequence

from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.values import dataclass, field

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch plan of one server: its command and its health check, as pure data, the same for every executor.

    A *form* of the plan (``forms.py``) starts it: a process on this machine, a container, or a step of a SLURM job.
    """

    #: The command, including setup commands and ``pre_cmd``. ``{secret_fd}`` becomes the number of a pipe from which
    #: the server reads ``api_key``, so that the key is in no file, no argument list and no environment.
    #: With ``nodes`` > 1 the same command runs once on every node, with ``NEL_NODE_HOSTS`` (the hosts, separated by
    #: spaces, the head first) and ``NEL_NODE_RANK`` (else ``SLURM_PROCID``) in its environment.
    argv: Sequence[str]
    port: int
    #: The machine on which the server runs.
    host: str = "127.0.0.1"
    base_path: str = "/v1"
    #: The server is up when one of them answers 200; a model must then generate one token as well.
    health_paths: Sequence[str] = ("/health",)
    #: Name of the model for that token; None: the server serves no model, or the request would cost money.
    model: str | None = None
    protocol: str = "chat_completions"
    startup_timeout: float = 600.0
    #: May hold secrets, also ``api_key``: passed as an environment or in a file of mode 0600, never in argv.
    env: dict[str, str] = field(default_factory=dict)
    api_key: Secret | None = None
    #: Seconds between SIGTERM and SIGKILL.
    stop_grace: float = 10.0
    #: How often a crashed server is restarted.
    restarts: int = 0
    #: Container image; None: ``argv`` runs without a container.
    image: str | None = None
    #: ``argv`` holds only the arguments of the image's own entrypoint.
    entrypoint: bool = False
    #: ``host:container[:ro]``.
    mounts: Sequence[str] = ()
    #: GPU indices, or the number of GPUs; None: all GPUs.
    gpus: Sequence[int] | int | None = None
    #: Number of nodes of this one server.
    nodes: int = 1
    #: Node pools, each with the number of nodes that the server needs; empty: the executor chooses.
    pools: Sequence[tuple[str, int]] = ()

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://{self.host}:{self.port}{self.base_path}"

    @property
    def health_urls(self) -> list[str]:
        """The URLs of the health check; the server is up when one of them answers 200."""
        return [f"http://{self.host}:{self.port}{path}" for path in self.health_paths]
