"""The decision of a gate: how the outcomes of its benchmarks combine."""

from nemo_evaluator.decisions.gate.report import BenchmarkGate, GateVerdict, Status


def aggregate(entries: list[BenchmarkGate]) -> tuple[GateVerdict, list[str]]:
    """Combine the benchmarks into the decision. Advisory benchmarks do not count.

    - NO-GO: a benchmark is a BREACH or MISSING.
    - INCONCLUSIVE: a benchmark is unproved or INVALID, or there is none.
    - GO: every benchmark is proved to keep its limits.

    Returns:
        The decision and its reasons.
    """
    required = [entry for entry in entries if entry.tier != "advisory"]
    blocking = [entry for entry in required if entry.status in (Status.BREACH, Status.MISSING)]
    if blocking:
        return GateVerdict.NO_GO, [_reason(entry) for entry in blocking]
    unproved = [entry for entry in required if entry.status is not Status.PASS]
    if unproved:
        return GateVerdict.INCONCLUSIVE, [_reason(entry) for entry in unproved]
    if not required:
        return GateVerdict.INCONCLUSIVE, ["no benchmark was evaluated, so nothing can be approved"]
    if len(required) == 1:
        return GateVerdict.GO, ["the benchmark keeps its limits"]
    return GateVerdict.GO, [f"all {len(required)} benchmarks keep their limits"]


def _reason(entry: BenchmarkGate) -> str:
    """The benchmark, its verdict and its first reason."""
    verdict = f"{entry.benchmark} ({entry.tier}): {entry.word}"
    if not entry.reasons:
        return verdict
    return f"{verdict}: {entry.reasons[0]}"
