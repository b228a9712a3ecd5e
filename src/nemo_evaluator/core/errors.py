"""Errors. Each names the boundary that broke, or carries the fix for the person who reads it.

::

    NelError                     shown to users as message + hint, never as a traceback; has an exit code
    ├── UsageError               a command or a call was used wrongly
    ├── ConfigError              a config file is wrong; carries every problem found
    ├── MissingExtraError        an optional library is absent; carries the install line
    └── BoundaryError            something outside failed; carries a Cause of the policy table
        ├── TransportError       connection, 5xx, timeout, bad JSON        (public alias: InfraError)
        │   └── OutageError      the server stopped responding and the outage timeout expired
        ├── RateLimitError       429
        ├── AuthError            401, 403
        ├── NotFoundError        404
        ├── RequestRejectedError other 4xx
        ├── ContextExceededError prompt too long
        ├── BudgetError          turn, token, money or time budget used up (public alias: GracefulError)
        ├── SolverError          a solver raised something of its own
        ├── SandboxError         container did not start, exec lost, transfer failed
        ├── JudgeError           judge unreachable or unparsable
        ├── ScorerError          scorer or verifier raised
        ├── TamperError          an answer reached for its own judge
        ├── SeedError            a dataset row cannot be asked
        └── InterruptedRunError  the run was interrupted before a request was sent
            └── DetachedError    the run leaves its batches to the vendor (--detach-batch)
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Final

from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.text import text_of, valid_text
from nemo_evaluator.core.values import dataclass

# Exit codes of `nel`.
EXIT_OK: Final = 0
EXIT_USAGE: Final = 1
EXIT_FAILED: Final = 2
EXIT_INVALID: Final = 3
EXIT_BUDGET: Final = 4
EXIT_DETACHED: Final = 5
EXIT_INTERRUPTED: Final = 130
#: Extras whose libraries want a newer Python than nel does.
NEED_PYTHON_3_12: Final = frozenset({"gym", "harbor", "nat"})


class NelError(Exception):
    """Base of all errors meant for a user: what happened, how to fix it, and an exit code.

    Args:
        message: What happened.
        hint: How to fix it.
    """

    exit_code: int = EXIT_USAGE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = valid_text(message)
        super().__init__(self.message)
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the error, which is sent between processes.

        Unpickling creates the object without ``__init__``, whose parameters differ between subclasses, and then
        restores its attributes.
        """
        cls = type(self)
        arguments_of_new = (cls, *self.args)
        return cls.__new__, arguments_of_new, self.__dict__


class UsageError(NelError):
    """A command or a call was used wrongly."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a config file.

    Attributes:
        path: The dotted path of the wrong value.
        message: What is wrong with it.
        hint: How to fix it.
        line: Its line in the file.
        source: The file, if it is not the one that the error names.
    """

    path: str
    message: str
    hint: str | None = None
    line: int | None = None
    source: str | None = None


class ConfigError(NelError):
    """A config is wrong.

    Args:
        problems: All problems, not only the first.
        source: The file.
    """

    def __init__(self, problems: Sequence[Problem], *, source: str | None = None) -> None:
        self.problems = list(problems)
        self.source = source
        messages = [f"{problem.path}: {problem.message}" for problem in self.problems]
        super().__init__("; ".join(messages) or "invalid config")

    def with_rest(self, check: Callable[..., Iterable[Problem]]) -> "ConfigError":
        """Return the error with the problems of the correct parts of the config as well.

        A subclass that knows these parts overrides this; without them, the error stays as it is.

        Args:
            check: Takes a config and returns its problems.
        """
        return self


def install_line(extra: str) -> str:
    """Return the command that installs an extra.

    It mentions the required Python when this one is too old: pip would silently install nothing.
    """
    line = f'pip install "nemo-evaluator[{extra}]"'
    if extra in NEED_PYTHON_3_12 and sys.version_info < (3, 12):
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        line += f", with Python 3.12 or newer (this is {version})"
    return line


class MissingExtraError(NelError):
    """An optional library is absent.

    Args:
        what: The library, or what needs it.
        extra: The extra of nel that installs it.
    """

    def __init__(self, what: str, *, extra: str) -> None:
        super().__init__(f"{what} is not installed", hint=install_line(extra))


class BoundaryError(NelError):
    """Something outside of nel failed.

    Args:
        message: What happened.
        hint: How to fix it.
        status: The HTTP status, if a server sent one.
        attempts: How many requests were sent.

    Attributes:
        cause: Selects the line of the policy table; a subclass names it: ``class AuthError(BoundaryError, cause=...)``.
        final: True when retrying cannot help: the run does not retry it, whatever its cause.
    """

    cause: ClassVar[Cause]
    exit_code = EXIT_FAILED
    final = False

    def __init_subclass__(cls, *, cause: Cause | None = None) -> None:
        # A subclass of a subclass may leave the cause out, and inherits it.
        if cause is not None:
            cls.cause = cause

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, attempts: int = 1
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.attempts = attempts


class TransportError(BoundaryError, cause=Cause.TRANSPORT):
    """Connection refused or reset, 5xx, timeout, or an answer that is not what the protocol says."""


class OutageError(TransportError, cause=Cause.OUTAGE):
    """The endpoint stopped responding and the outage timeout expired: the benchmark stops and can be resumed."""


class RateLimitError(BoundaryError, cause=Cause.RATE_LIMIT):
    """The server asked nel to slow down.

    Args:
        message: What happened.
        retry_after: The seconds to wait, if the server gave a time.
        hint: How to fix it.
        status: The HTTP status.
        attempts: How many requests were sent.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        hint: str | None = None,
        status: int | None = 429,
        attempts: int = 1,
    ) -> None:
        super().__init__(message, hint=hint, status=status, attempts=attempts)
        self.retry_after = retry_after


class AuthError(BoundaryError, cause=Cause.AUTH):
    """The key is missing, wrong, or not allowed to use the model."""


class NotFoundError(BoundaryError, cause=Cause.NOT_FOUND):
    """The server does not know the model or the path."""


class RequestRejectedError(BoundaryError, cause=Cause.REQUEST_REJECTED):
    """The server refused the request as such (400, 413, 422, ...)."""


class ContextExceededError(BoundaryError, cause=Cause.CONTEXT_EXCEEDED):
    """The prompt is longer than the model's context."""


class BudgetError(BoundaryError, cause=Cause.BUDGET):
    """A turn, token, money or time budget of the task is used up; the answer is verified as it stands."""


class SolverError(BoundaryError, cause=Cause.SOLVER):
    """A solver raised something of its own: a bug, or a case it did not foresee."""


class SandboxError(BoundaryError, cause=Cause.SANDBOX):
    """A sandbox did not start, lost a command, or did not carry a file."""


class JudgeError(BoundaryError, cause=Cause.JUDGE):
    """The judge could not be reached, or its reply could not be parsed."""


class ScorerError(BoundaryError, cause=Cause.SCORER):
    """A scorer or verifier raised."""


class TamperError(BoundaryError, cause=Cause.TAMPER):
    """An answer interfered with its judge instead of solving the problem: it is neither right nor measured."""


class SeedError(BoundaryError, cause=Cause.SEED):
    """A dataset row cannot be turned into a question."""


class InterruptedRunError(BoundaryError, cause=Cause.CANCELLED):
    """The run was interrupted: the request was not sent, its step is left to ``--resume``."""


class DetachedError(InterruptedRunError):
    """The process submitted batches and does not wait for them: ``--resume`` collects their results."""

    exit_code = EXIT_DETACHED


# Public names of the reference.
InfraError = TransportError
GracefulError = BudgetError

# The error that `boundary` raises for a cause. Nothing is attributed to CANCELLED: cancellations pass through.
_ATTRIBUTED_ERRORS: Final[tuple[type[BoundaryError], ...]] = (
    TransportError,
    OutageError,
    RateLimitError,
    AuthError,
    NotFoundError,
    RequestRejectedError,
    ContextExceededError,
    BudgetError,
    SolverError,
    SandboxError,
    JudgeError,
    ScorerError,
    TamperError,
    SeedError,
)
ERROR_OF_CAUSE: Final[dict[Cause, type[BoundaryError]]] = {
    error_class.cause: error_class for error_class in _ATTRIBUTED_ERRORS
}


class boundary:
    """Attribute exceptions that escape the block to a cause, ``SystemExit`` included.

    Errors that already name a boundary pass through, and so do cancellations and Ctrl-C.

    ::

        with boundary(Cause.SCORER):
            verdict = score(answer)

    Args:
        cause: The cause of exceptions that do not name one.
    """

    __slots__ = ("_cause",)

    def __init__(self, cause: Cause) -> None:
        self._cause = cause

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is not None:
            self.attribute(error)

    def attribute(self, error: BaseException) -> None:
        """Raise the error of the cause, or return when the error passes through.

        Hot paths call this in an ``except`` of their own.

        Raises:
            BoundaryError: The error of the cause; its message has the type and the text of ``error``.
        """
        if isinstance(error, BoundaryError | KeyboardInterrupt | GeneratorExit):
            return
        if _is_cancellation(error):
            return
        kind = type(error).__name__
        detail = text_of(error) or kind
        raise ERROR_OF_CAUSE[self._cause](f"{kind}: {detail}") from error


def _is_cancellation(error: BaseException) -> bool:
    """Return whether an error is asyncio's CancelledError.

    The class is recognized by its name, because commands that run nothing do not import asyncio.
    """
    return any(base.__name__ == "CancelledError" for base in type(error).__mro__)
