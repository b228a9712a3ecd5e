"""The input and the result of a scorer, and the version that enters fingerprints."""

from __future__ import annotations

import inspect
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.local_sources import imported_sources
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field

if TYPE_CHECKING:
    from nemo_evaluator.core.trajectory_document import TrajectoryDocument
    from nemo_evaluator.sandbox.base import Sandbox

# Raised whenever a built-in scorer may judge an answer differently: scorers of users call the built-in ones.
SCORING_VERSION: Final = "4"

_QUESTIONS: Final = ("question", "problem", "sentence", "context", "input", "prompt")
# The loop of the run, for scorers that work in a thread beside it.
SCORER_LOOP: ContextVar[AbstractEventLoop] = ContextVar("scorer_loop")
F = TypeVar("F", bound=Callable[..., Any])
Score: TypeAlias = JsonDict


@dataclass(slots=True)
class ScorerInput:
    """One answer and what it is compared with.

    Attributes:
        response: The answer.
        target: The expected answer.
        metadata: The other columns of the row.
        config: The settings of the scorer.
        sandbox: The sandbox of the sample, if it has one.
        trajectory: The steps of the solver, if it is an agent.
    """

    response: str
    target: Any
    metadata: JsonDict = field(default_factory=dict)
    config: JsonDict = field(default_factory=dict)
    sandbox: Sandbox | None = None
    trajectory: list[TrajectoryDocument] = field(default_factory=list)

    @property
    def question(self) -> str:
        """The question of the row, or "". A response that only repeats it is not an answer."""
        for column in _QUESTIONS:
            text = self.metadata.get(column)
            if isinstance(text, str) and text:
                return text
        return ""


class Scorer(Protocol):
    """A function from an answer to ``{"correct": bool | number, "extracted": str | None, ...}``; may be async."""

    def __call__(self, sample: ScorerInput) -> Score | Awaitable[Score]: ...


def versioned(version: str, *, inline: bool = True) -> Callable[[F], F]:
    """Give a scorer its version.

    Args:
        version: Part of the fingerprint; raise it when a verdict may change.
        inline: Whether a call takes microseconds, so that it may run on the event loop.
    """

    def mark(function: F) -> F:
        function.version = version  # type: ignore[attr-defined]
        function.inline = inline  # type: ignore[attr-defined]
        return function

    return mark


def scorer_version(scorer: Callable[..., Any]) -> str:
    """Return the identity of a scorer: its name and version, or the digest of its source for a user's function."""
    name = f"{getattr(scorer, '__module__', '')}.{getattr(scorer, '__qualname__', type(scorer).__qualname__)}"
    version = getattr(scorer, "version", None)
    if version is None:
        try:
            source = inspect.getsource(scorer if inspect.isroutine(scorer) else type(scorer))
        except (OSError, TypeError):
            code = getattr(scorer, "__code__", None)
            if code is None:
                source = repr(type(scorer))
            else:
                source = repr((code.co_code, code.co_consts, code.co_names))
        version = digest_parts(source, *_imported(scorer))[:12]
    return f"{name}@{version}+{SCORING_VERSION}"


def _imported(scorer: Callable[..., Any]) -> list[str]:
    """Return the identity of the rest of a user's file and of its imports; empty for code without a file."""
    definition = inspect.unwrap(scorer) if inspect.isroutine(scorer) else type(scorer)
    try:
        file = inspect.getsourcefile(definition)
    except TypeError:
        file = None
    if file is None or not Path(file).is_file():
        return []
    path = Path(file)
    return [
        digest_parts(path.read_text(encoding="utf-8", errors="replace")),
        imported_sources([path]).digest(),
    ]


def found(extracted: str | None, correct: bool | float, **details: Any) -> Score:
    """Create a score. Without an extracted answer, it is wrong and marked as unparsed."""
    score: Score = {"correct": correct, "extracted": extracted, **details}
    if extracted is None:
        score["correct"] = False
        score["unparsed"] = True
    return score
