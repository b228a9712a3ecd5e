"""What a bundle says of its stop rule, in words: which rule, what came of it, what it saved."""

from __future__ import annotations

from nemo_evaluator.core.types import JsonDict


def rule_words(stopped: JsonDict | None) -> str:
    """One sentence on the rule of a run, from the ``stopped`` part of its bundle; empty when there was none."""
    found = (stopped or {}).get("rule")
    if not stopped or not isinstance(found, dict):
        return f"stopped: {stopped.get('reason')}" if stopped and stopped.get("kind") == "rule" else ""
    settings = found.get("rule") if isinstance(found.get("rule"), dict) else {}
    assert isinstance(settings, dict)
    aims = [
        f"the interval is at most {settings['interval_width']:g} wide" if settings.get("interval_width") else "",
        f"it is settled whether the drop from {settings['decided_against']} is more than {settings['max_drop']:g}"
        if settings.get("decided_against")
        else "",
    ]
    rule = " or ".join(aim for aim in aims if aim)
    words = f"stop when {rule}; " if rule else ""
    note = f"; {found['note']}" if found.get("note") else ""
    problems, planned = found.get("problems"), found.get("planned")
    if found.get("stopped"):
        saved = f", {found['saved_share']:.0%} saved" if found.get("saved_share") else ""
        return f"{words}stopped after {problems} of {planned} problems{saved}: {found.get('reason')}{note}"
    decision = f"; at the last look: {found['decision']}" if found.get("decision") else ""
    return f"{words}the run was not stopped{decision}{note}"
