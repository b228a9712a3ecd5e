"""Findings on a run for people."""

from __future__ import annotations

from nemo_evaluator.decisions.findings import RunCheck
from nemo_evaluator.reports import _words as words


def check_text(one: RunCheck) -> str:
    """What was found in one run, as plain text."""
    found = f" ({one.failure_class})" if one.failure_class else ""
    lines = [f"{one.status}  {one.benchmark}{found}: {one.rows} rows, {one.run_id}"]
    lines += [f"  {finding.level:<8}  {finding.check}: {finding.message}" for finding in one.findings]
    return words.printable("\n".join(lines)) + "\n"
