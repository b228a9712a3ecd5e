"""The stop rule of a run in one sentence: its aims, its outcome, and the share of problems that it saved."""

from collections.abc import Mapping
from typing import Any

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict


def rule_words(stopped: Mapping[str, Any] | None) -> str:
    """Describe the stop rule of a run.

    Args:
        stopped: The ``stopped`` part of the run's bundle.

    Returns:
        One sentence; empty for a run without a stop rule.
    """
    stopped = as_dict(stopped)
    summary = as_dict(stopped.get("rule"))
    if not summary:
        if stopped.get("kind") == "rule":
            return f"stopped: {stopped.get('reason')}"
        return ""
    return f"{_aims(as_dict(summary.get('rule')))}{_outcome(summary)}{_notes(summary)}"


def _aims(settings: JsonDict) -> str:
    """When the rule stops a run."""
    aims: list[str] = []
    if settings.get("interval_width") is not None:
        aims.append(f"the interval is at most {settings['interval_width']} wide")
    if settings.get("decided_against") is not None:
        baseline = settings["decided_against"]
        drop = f"the drop from {baseline} is more than {settings.get('max_drop')}"
        aims.append(f"it is settled whether {drop}")
    if not aims:
        return ""
    return f"stop when {' or '.join(aims)}; "


def _outcome(summary: JsonDict) -> str:
    """Where the rule stopped the run, or the decision at its planned end."""
    if summary.get("stopped"):
        saved = summary.get("saved_share")
        saved_words = f", {saved:.0%} saved" if isinstance(saved, float) else ""
        problems = f"{summary.get('problems')} of {summary.get('planned')} problems"
        return f"stopped after {problems}{saved_words}: {summary.get('reason')}"
    if summary.get("decision"):
        return f"the run was not stopped; at the last look: {summary['decision']}"
    return "the run was not stopped"


def _notes(summary: JsonDict) -> str:
    """The rule's note, and the planned ends that it had before."""
    notes = ""
    if summary.get("note"):
        notes += f"; {summary['note']}"
    if summary.get("moved_from"):
        earlier_ends = ", ".join(str(problems) for problems in summary["moved_from"])
        notes += f"; its planned end was moved from {earlier_ends} problems"
    return notes
