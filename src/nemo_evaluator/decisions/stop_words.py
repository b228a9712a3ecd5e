"""What a bundle says of its stop rule, in words: which rule, what came of it, what it saved."""

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict


def rule_words(stopped: JsonDict | None) -> str:
    """One sentence on the rule of a run, from the ``stopped`` part of its bundle; empty when there was none."""
    stopped = as_dict(stopped)
    found = as_dict(stopped.get("rule"))
    if not found:
        if stopped.get("kind") == "rule":
            return f"stopped: {stopped.get('reason')}"
        return ""
    rule = as_dict(found.get("rule"))
    aims = []
    if rule.get("interval_width") is not None:
        aims.append(f"the interval is at most {rule['interval_width']} wide")
    if rule.get("decided_against") is not None:
        drop = f"the drop from {rule['decided_against']} is more than {rule.get('max_drop')}"
        aims.append(f"it is settled whether {drop}")
    if aims:
        words = f"stop when {' or '.join(aims)}; "
    else:
        words = ""
    if found.get("note"):
        note = f"; {found['note']}"
    else:
        note = ""
    if found.get("moved_from"):
        note += (
            f"; its planned end was moved from {', '.join(map(str, found['moved_from']))} problems"
        )
    if found.get("stopped"):
        saved = found.get("saved_share")
        if isinstance(saved, float):
            share = f", {saved:.0%} saved"
        else:
            share = ""
        where = f"stopped after {found.get('problems')} of {found.get('planned')} problems{share}"
        return f"{words}{where}: {found.get('reason')}{note}"
    if found.get("decision"):
        decision = f"; at the last look: {found['decision']}"
    else:
        decision = ""
    return f"{words}the run was not stopped{decision}{note}"
