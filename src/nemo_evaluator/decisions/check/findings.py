"""What a check of a run can find, and what follows from it."""

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from nemo_evaluator.core.types import JsonDict


class Level(StrEnum):
    """How bad a finding is, from nothing to everything."""

    NOTE = "note"
    DEGRADED = "degraded"
    INVALID = "invalid"


class RunStatus(StrEnum):
    """What a run may be used for: everything, with care, nothing."""

    VALID = "VALID"
    DEGRADED = "DEGRADED"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> int:
        """The exit code under ``--strict``."""
        return {RunStatus.VALID: 0, RunStatus.DEGRADED: 2, RunStatus.INVALID: 3}[self]


class FailureClass(StrEnum):
    """Whose fault it is, in order of precedence."""

    JUDGE = "EVAL_JUDGE_FAILED"
    INFRA = "INFRA_TRANSIENT"
    ACCOUNTING = "SAMPLE_ACCOUNTING_FAILED"
    UNKNOWN = "UNKNOWN"
    CONFIG = "USER_CONFIG_ERROR"


_STATUS: Final = {
    Level.NOTE: RunStatus.VALID,
    Level.DEGRADED: RunStatus.DEGRADED,
    Level.INVALID: RunStatus.INVALID,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at and is not as it should be."""

    check: str
    level: Level
    message: str
    failure_class: FailureClass | None = None


@dataclass(slots=True)
class RunCheck:
    """What was found in one run."""

    benchmark: str
    run_id: str
    path: str
    rows: int
    problems: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def status(self) -> RunStatus:
        """The worst finding decides."""
        worst = max(
            (finding.level for finding in self.findings), key=list(Level).index, default=Level.NOTE
        )
        return _STATUS[worst]

    @property
    def reasons(self) -> list[str]:
        """Why it is not VALID: the findings that decided."""
        return [finding.message for finding in self.findings if finding.level is not Level.NOTE]

    @property
    def failure_class(self) -> FailureClass | None:
        """The class that comes first in precedence, when the run is not VALID."""
        found: list[FailureClass] = []
        for f in self.findings:
            if f.failure_class and f.level is not Level.NOTE:
                found.append(f.failure_class)
        return min(found, key=list(FailureClass).index, default=None)

    def to_dict(self) -> JsonDict:
        return asdict(self) | {"status": str(self.status), "failure_class": self.failure_class}
