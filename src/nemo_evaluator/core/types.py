"""The value types that packages exchange: problem, answer, verdict, outcome."""

import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from nemo_evaluator.core.failures import Cause, Failure
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument

JsonDict: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]


class Step(NamedTuple):
    """One problem x one repeat: the unit of work, of storage and of resume."""

    problem_idx: int
    repeat: int


@dataclass(slots=True)
class SandboxSpec:
    """The sandbox that a problem needs."""

    image: str = ""
    workdir: str = "/workspace"
    env: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    entrypoint: str | list[str] | None = None
    volumes: list[Any] = field(default_factory=list)
    environment_dir: str | None = None
    # Resources (memory and disk in bytes, life in seconds) and internet access; None leaves them to the config.
    cpus: float | None = None
    memory: int | None = None
    disk: int | None = None
    network: bool | None = None
    life: float | None = None


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One of several requests of a problem: a prompt to continue, or one whose log-likelihood is scored.

    Attributes:
        prompt: A text, or token ids.
        messages: The prompt as messages, for a chat endpoint; None for a text.
        scored_from: The position of the first scored character, or of the first scored token in a prompt of token ids;
            None for a prompt to continue.
        generation: Generation parameters of this request.
        messages: The messages of a chat to continue, which replace the prompt.
    """

    prompt: str | list[int]
    scored_from: int | None = None
    generation: JsonDict = field(default_factory=dict)
    messages: list[Message] | None = None


@dataclass(slots=True)
class SeedResult:
    """One problem, ready to be sent to a solver."""

    prompt: str
    expected_answer: str
    metadata: JsonDict = field(default_factory=dict)
    messages: list[Message] | None = None
    system: str | None = None
    images: list[Any] | None = None
    sandbox_spec: SandboxSpec | None = None
    verify_sandbox_spec: SandboxSpec | None = None
    capture_cmd: str | None = None
    apply_cmd: str | None = None
    pre_agent_cmd: str | None = None
    # What it shares with other problems, such as a passage; empty for a problem of its own.
    cluster: str = ""
    # Metadata keys that results need not repeat because the prompt or the target already carries them.
    shown: frozenset[str] = frozenset()
    # Requests that replace the prompt: the response is then the JSON list of their results.
    requests: list[PromptRequest] | None = None
    # The problem's folder on this machine (tests, solution); not in any fingerprint or file.
    folder: Path | None = None
    # Paths and commands that an honest agent does not use; the row notes those that its trajectory contains.
    tripwires: Mapping[str, str] = field(default_factory=dict)
    # The actions of the solver, for verifiers that grade them as well as the result.
    trajectory: "list[TrajectoryDocument]" = field(default_factory=list)

    @property
    def plain_messages(self) -> list[Message]:
        """The system prompt and the prompt as messages."""
        messages: list[Message] = []
        if self.system:
            messages.append({"role": "system", "content": self.system})
        messages.append({"role": "user", "content": self.prompt})
        return messages

    def stored_metadata(self) -> JsonDict:
        """The metadata that is written to files."""
        if self.shown:
            return {name: item for name, item in self.metadata.items() if name not in self.shown}
        return self.metadata


@dataclass(slots=True)
class VerifyResult:
    """The verdict of the environment on an answer."""

    reward: float
    extracted_answer: str | None = None
    scoring_details: JsonDict = field(default_factory=dict)
    metadata: JsonDict = field(default_factory=dict)


class ErrorKind(StrEnum):
    """How to treat an error that a solver returns instead of raising it."""

    NONE = "none"
    GRACEFUL = "graceful"
    INFRA = "infra_error"
    TOOL_INFRA = "tool_infra"
    SYSTEM = "system"
    SOLVE_TIMEOUT = "solve_timeout"


@dataclass(slots=True)
class ToolCallInfo:
    """A tool call requested by a model."""

    id: str
    name: str
    arguments: JsonDict


@dataclass(slots=True)
class ModelResponse:
    """A model's reply and its cost."""

    content: str
    model: str = ""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    # The server's time. Waiting before the request was sent (concurrency, pace, budget) is ``queue_ms``.
    latency_ms: float = 0.0
    raw_response: JsonDict = field(default_factory=dict)
    request_prompt: str = ""
    request_system: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallInfo] = field(default_factory=list)
    # The request body as it left us, after every interceptor; the journal stores its messages.
    request_body: JsonDict | None = None
    attempts: int = 1
    time_to_first_token_ms: float | None = None
    cost_usd: float | None = None
    from_cache: bool = False
    queue_ms: float = 0.0

    @property
    def request_hash(self) -> str:
        """16 hex digits over prompt, system prompt and model."""
        text = f"{self.request_prompt}|{self.request_system}|{self.model}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def response_hash(self) -> str:
        """16 hex digits over the content."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


# The key of a solver's scoring details that says whose number its reward is.
REWARD_OF: Final = "reward_of"


@dataclass(slots=True)
class SolveResult:
    """The result of a solver: text, usage, trajectory."""

    response: str
    model_response: ModelResponse | None = None
    trajectory: "list[TrajectoryDocument]" = field(default_factory=list)
    reward: float | None = None
    scoring_details: JsonDict = field(default_factory=dict)
    error: str | None = None
    error_kind: ErrorKind = ErrorKind.NONE


@dataclass(frozen=True, slots=True)
class Scored:
    """A measured row. ``label`` names the limit that cut it short, if any (budget, context_exceeded)."""

    verdict: VerifyResult
    label: Cause | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """A row that could not be measured: never a zero."""

    failure: Failure


Outcome: TypeAlias = Scored | Failed


class ReportMapping(Mapping[str, Any]):
    """A report with attributes; as a mapping, the same as ``to_dict()``."""

    __slots__ = ()

    def to_dict(self) -> Mapping[str, Any]:
        """The report as JSON."""
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """How an external agent reaches its model: a base URL, a key for one attempt, and the model's name."""

    url: str
    api_key: Secret
    model: str

    def variables(self) -> dict[str, str]:
        """The environment to run the agent with; the sandbox replaces ``{url}`` by the address inside."""
        key = self.api_key.reveal()
        # Besides MODEL_BASE_URL, which sandboxes set: our key, and the variables that OpenAI's own client reads.
        return {
            "MODEL_NAME": self.model,
            "OPENAI_BASE_URL": "{url}",
            "MODEL_API_KEY": key,
            "OPENAI_API_KEY": key,
        }
