"""The check of runs as plain text for people."""

from collections import Counter
from collections.abc import Sequence

from nemo_evaluator.decisions.check.findings import FailureClass, RunCheck, RunStatus
from nemo_evaluator.reports import _words as words


def checks_text(checks: Sequence[RunCheck], *, width: int | None = None) -> str:
    """What was found in each run, as plain text, and the sum of it where there are several."""
    text = "".join(_one(check, width) for check in checks)
    if len(checks) < 2:
        return text
    counts = Counter(check.status for check in checks)
    said = ", ".join(f"{counts[status]} {status}" for status in RunStatus if counts[status])
    return f"{text}{len(checks)} benchmarks: {said}\n"


def _one(one: RunCheck, width: int | None) -> str:
    found = f" ({one.failure_class})" if one.failure_class not in (None, FailureClass.UNKNOWN) else ""
    count = words.counted(one.problems, "problem")
    count += f" in {one.rows:,} rows" if one.rows != one.problems else ""
    lines = words.wrapped(f"{one.status}  {one.benchmark}{found}: {count}, {one.run_id or one.path}", "", width=width)
    for finding in one.findings:
        said = f"{finding.check}: {finding.message}".replace("\n", " ")
        lines += words.wrapped(said, mark=f"{finding.level:<8}  ", width=width)
    return words.printable("\n".join(lines)) + "\n"
