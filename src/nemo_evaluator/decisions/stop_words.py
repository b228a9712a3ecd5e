"""What a bundle says of its stop rule, in words: which rule, what came of it, what it saved."""

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict


def rule_words(stopped: JsonDict | None) -> str:
    """One sentence on the rule of a run, from the ``stopped`` part of its bundle; empty when there was none."""
    stopped = as_dict(stopped)
    found = as_dict(stopped.get("rule"))
    if not found:
        return f"stopped: {stopped.get('reason')}" if stopped.get("kind") == "rule" else ""
    rule, aims = as_dict(found.get("rule")), []
    if rule.get("interval_width") is not None:
        aims.append(f"the interval is at most {rule['interval_width']} wide")
    if rule.get("decided_against") is not None:
        drop = f"the drop from {rule['decided_against']} is more than {rule.get('max_drop')}"
        aims.append(f"it is settled whether {drop}")
    words = f"stop when {' or '.join(aims)}; " if aims else ""
    note = f"; {found['note']}" if found.get("note") else ""
    if found.get("moved_from"):
        note += f"; its planned end was moved from {', '.join(map(str, found['moved_from']))} problems"
    if found.get("stopped"):
        saved = found.get("saved_share")
        share = f", {saved:.0%} saved" if isinstance(saved, float) else ""
        where = f"stopped after {found.get('problems')} of {found.get('planned')} problems{share}"
        return f"{words}{where}: {found.get('reason')}{note}"
    decision = f"; at the last look: {found['decision']}" if found.get("decision") else ""
    return f"{words}the run was not stopped{decision}{note}"
