"""The engine: plan, loop, step. Public names load on first use."""

from __future__ import annotations

from typing import Any, Final

from nemo_evaluator.core.registry import load_object

_HOMES: Final = {
    "run_evaluation": "nemo_evaluator.engine.api",
    "evaluate": "nemo_evaluator.engine.evaluation",
    "Evaluation": "nemo_evaluator.engine.evaluation",
    "merge_shards": "nemo_evaluator.engine.merge",
    # Decisions stand above the engine; their names are kept here for those who learnt them here.
    **dict.fromkeys(
        (
            "BenchmarkGate",
            "FlipReport",
            "GateReport",
            "RegressionReport",
            "build_flip_report",
            "compare_results",
            "compare_runs",
            "discover_bundles",
            "gate_runs",
            "load_paired_records",
            "match_bundles",
            "write_gate_report",
            "write_regression",
        ),
        "nemo_evaluator.decisions",
    ),
}

__all__ = ["Evaluation", "evaluate", "merge_shards", "run_evaluation"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return load_object(f"{_HOMES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
