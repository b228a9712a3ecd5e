"""What a check of a run can find, and the status that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nemo_evaluator.decisions.check.check_document import CheckDocument, FindingEntry


class Level(StrEnum):
    """How serious a finding is, from least to most."""

    NOTE = "note"
    DEGRADED = "degraded"
    INVALID = "invalid"


class RunStatus(StrEnum):
    """What a run may be used for: anything, use with care, or nothing."""

    VALID = "VALID"
    DEGRADED = "DEGRADED"
    INVALID = "INVALID"

    @property
    def exit_code(self) -> int:
        """The exit code under ``--strict``."""
        return {RunStatus.VALID: 0, RunStatus.DEGRADED: 2, RunStatus.INVALID: 3}[self]


class FailureClass(StrEnum):
    """The party responsible for a failure, in order of precedence."""

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
    """One problem that a check found.

    Attributes:
        check: The name of the check.
        level: How serious it is.
        message: The sentence shown to people.
        failure_class: Who is responsible; None when nothing failed.
    """

    check: str
    level: Level
    message: str
    failure_class: FailureClass | None = None

    def to_dict(self) -> FindingEntry:
        """The JSON of the finding."""
        return {
            "check": self.check,
            "level": self.level,
            "message": self.message,
            "failure_class": self.failure_class,
        }


@dataclass(slots=True)
class RunCheck:
    """The findings of one run."""

    benchmark: str
    run_id: str
    path: str
    rows: int
    problems: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def status(self) -> RunStatus:
        """The status that the worst finding implies."""
        worst = max(
            (finding.level for finding in self.findings), key=list(Level).index, default=Level.NOTE
        )
        return _STATUS[worst]

    @property
    def reasons(self) -> list[str]:
        """The messages of all findings worse than a note."""
        return [finding.message for finding in self.findings if finding.level is not Level.NOTE]

    @property
    def failure_class(self) -> FailureClass | None:
        """The class that comes first in order of precedence; None when no finding is worse than a note."""
        classes: list[FailureClass] = []
        for finding in self.findings:
            if finding.failure_class and finding.level is not Level.NOTE:
                classes.append(finding.failure_class)
        return min(classes, key=list(FailureClass).index, default=None)

    def to_dict(self) -> CheckDocument:
        """The JSON of the check."""
        return {
            "benchmark": self.benchmark,
            "run_id": self.run_id,
            "path": self.path,
            "rows": self.rows,
            "problems": self.problems,
            "findings": [finding.to_dict() for finding in self.findings],
            "status": str(self.status),
            "failure_class": self.failure_class,
        }
