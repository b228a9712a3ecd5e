"""The engine: plan, loop, step. Public names load on first use."""

from __future__ import annotations

from nemo_evaluator.core.lazy import lazy_names

_MODULES = {
    "api": ("run_evaluation", "write_all"),
    "evaluation": ("Evaluation", "evaluate"),
    "merge": ("merge_shards",),
    # Decisions stand above the engine; their names are kept here for those who learnt them here.
    "nemo_evaluator.decisions": (
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
    "nemo_evaluator.adapters.model_client": ("ModelClient",),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
