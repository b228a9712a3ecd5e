"""How an agent ended, whoever ran it."""

from dataclasses import dataclass, field

from nemo_evaluator.core.types import JsonDict


@dataclass(slots=True)
class AgentEnd:
    """What an agent left besides its workspace; ``error`` says that it broke rather than finished."""

    response: str = ""
    trajectory: list[JsonDict] = field(default_factory=list)
    error: str | None = None
    timed_out: bool = False
    details: JsonDict = field(default_factory=dict)
