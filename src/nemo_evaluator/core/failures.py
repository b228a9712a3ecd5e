"""Why a step failed, and what follows from it: one table, read by engine, resume, reports and gate alike."""

from enum import StrEnum
from typing import Final

from nemo_evaluator.core.values import dataclass


class Cause(StrEnum):
    """The boundary that broke."""

    TRANSPORT = "transport"
    OUTAGE = "outage"
    RATE_LIMIT = "rate_limit"
    AUTH = "auth"
    NOT_FOUND = "not_found"
    REQUEST_REJECTED = "request_rejected"
    CONTEXT_EXCEEDED = "context_exceeded"
    BUDGET = "budget"
    SOLVER = "solver"
    SANDBOX = "sandbox"
    JUDGE = "judge"
    SCORER = "scorer"
    TAMPER = "tamper"
    SEED = "seed"
    CANCELLED = "cancelled"


class Stop(StrEnum):
    """Whether a cause ends the whole benchmark."""

    NEVER = "never"
    AT_ONCE = "at_once"
    IF_FIRST = "if_first"


class Redo(StrEnum):
    """What ``--resume`` does again for a row that ended with a cause."""

    NOTHING = "nothing"
    VERIFY = "verify"
    ALL = "all"


class RowOutcome(StrEnum):
    """How the row of a step is stored when the step ended with a cause."""

    FAILED = "failed"
    ZERO = "zero"
    VERIFIED = "verified"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Policy:
    """One line of the failure table."""

    retry: bool
    redo: Redo
    row: RowOutcome
    stop: Stop = Stop.NEVER


POLICY: Final[dict[Cause, Policy]] = {
    Cause.TRANSPORT: Policy(retry=True, redo=Redo.ALL, row=RowOutcome.FAILED, stop=Stop.IF_FIRST),
    Cause.OUTAGE: Policy(retry=False, redo=Redo.ALL, row=RowOutcome.ABSENT, stop=Stop.AT_ONCE),
    Cause.RATE_LIMIT: Policy(retry=True, redo=Redo.ALL, row=RowOutcome.FAILED),
    Cause.AUTH: Policy(retry=False, redo=Redo.ALL, row=RowOutcome.ABSENT, stop=Stop.AT_ONCE),
    Cause.NOT_FOUND: Policy(retry=False, redo=Redo.ALL, row=RowOutcome.ABSENT, stop=Stop.AT_ONCE),
    Cause.REQUEST_REJECTED: Policy(
        retry=False, redo=Redo.ALL, row=RowOutcome.FAILED, stop=Stop.IF_FIRST
    ),
    Cause.CONTEXT_EXCEEDED: Policy(retry=False, redo=Redo.NOTHING, row=RowOutcome.ZERO),
    Cause.BUDGET: Policy(retry=False, redo=Redo.NOTHING, row=RowOutcome.VERIFIED),
    Cause.SOLVER: Policy(retry=True, redo=Redo.ALL, row=RowOutcome.FAILED),
    Cause.SANDBOX: Policy(retry=True, redo=Redo.ALL, row=RowOutcome.FAILED),
    Cause.JUDGE: Policy(retry=True, redo=Redo.VERIFY, row=RowOutcome.FAILED),
    Cause.SCORER: Policy(retry=False, redo=Redo.VERIFY, row=RowOutcome.FAILED),
    Cause.TAMPER: Policy(retry=False, redo=Redo.VERIFY, row=RowOutcome.FAILED),
    Cause.SEED: Policy(retry=False, redo=Redo.ALL, row=RowOutcome.FAILED),
    Cause.CANCELLED: Policy(retry=False, redo=Redo.ALL, row=RowOutcome.ABSENT),
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed step: the cause, in words, and how often it was tried."""

    cause: Cause
    message: str
    attempts: int = 1
