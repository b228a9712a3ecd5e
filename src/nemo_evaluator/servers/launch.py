"""How one server is started, as data."""

from collections.abc import Callable, Sequence

from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.values import dataclass, field

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Launch:
    """How one server is started and how its readiness is asked: pure data, the same for every executor. What starts it
    is a *form* of the plan (``forms.py``): a process here, a container, a step of a SLURM job."""

    #: The command, setup commands and ``pre_cmd`` included. ``{secret_fd}`` becomes the number of a pipe from which
    #: the server reads ``api_key``, so that the key is in no file, no argument list and no environment.
    #: With ``nodes`` > 1 the same command runs once on every node, with ``NEL_NODE_HOSTS`` (the hosts, separated by
    #: spaces, the head first) and ``NEL_NODE_RANK`` (else ``SLURM_PROCID``) in its environment.
    argv: Sequence[str]
    port: int
    #: The machine on which the server is reached.
    host: str = "127.0.0.1"
    base_path: str = "/v1"
    #: Up when one of them answers 200; a model must then answer one token as well.
    health_paths: Sequence[str] = ("/health",)
    #: Name of the model for that token; None: the server is no model, or asking would cost something.
    model: str | None = None
    protocol: str = "chat_completions"
    startup_timeout: float = 600.0
    #: May hold secrets, ``api_key`` among them: handed on as an environment or in a file of mode 0600, never in argv.
    env: dict[str, str] = field(default_factory=dict)
    api_key: Secret | None = None
    #: Seconds between SIGTERM and SIGKILL.
    stop_grace: float = 10.0
    #: How often a server that has crashed is started again.
    restarts: int = 0
    #: Container image; None: ``argv`` is run as it stands.
    image: str | None = None
    #: ``argv`` holds only arguments for what the image starts by itself.
    entrypoint: bool = False
    #: ``host:container[:ro]``.
    mounts: Sequence[str] = ()
    #: GPU numbers, or how many; None: all that there are.
    gpus: Sequence[int] | int | None = None
    #: Nodes of this one server.
    nodes: int = 1
    #: Node pools with the nodes that are wanted of each; empty: the executor chooses.
    pools: Sequence[tuple[str, int]] = ()

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://{self.host}:{self.port}{self.base_path}"

    @property
    def health_urls(self) -> list[str]:
        """The server is ready when one of them answers 200."""
        return [f"http://{self.host}:{self.port}{path}" for path in self.health_paths]
