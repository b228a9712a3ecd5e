"""Decisions on finished runs: compare, gate, power, validity. Names are loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_evaluator.decisions.bundles import Matched, Run, discover_bundles, find_runs, match_bundles
    from nemo_evaluator.decisions.check import check_path, check_run
    from nemo_evaluator.decisions.compare import (
        PairedRecords,
        compare_results,
        compare_runs,
        load_paired_records,
    )
    from nemo_evaluator.decisions.findings import RunCheck, RunStatus
    from nemo_evaluator.decisions.flips import Flip, FlipReport, build_flip_report
    from nemo_evaluator.decisions.gate import gate_runs
    from nemo_evaluator.decisions.gate_report import BenchmarkGate, GateReport, GateVerdict, write_gate_report
    from nemo_evaluator.decisions.many import ComparisonSet, compare_paths
    from nemo_evaluator.decisions.options import CompareOptions
    from nemo_evaluator.decisions.report import RegressionReport, write_regression
    from nemo_evaluator.decisions.verdict import Relation, Verdict

_MODULES = {
    "bundles": ("Matched", "Run", "discover_bundles", "find_runs", "match_bundles"),
    "check": ("check_path", "check_run"),
    "findings": ("RunCheck", "RunStatus"),
    "compare": ("PairedRecords", "compare_results", "compare_runs", "load_paired_records"),
    "flips": ("Flip", "FlipReport", "build_flip_report"),
    "gate": ("gate_runs",),
    "gate_report": ("BenchmarkGate", "GateReport", "GateVerdict", "write_gate_report"),
    "many": ("ComparisonSet", "compare_paths"),
    "options": ("CompareOptions",),
    "report": ("RegressionReport", "write_regression"),
    "verdict": ("Relation", "Verdict"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "BenchmarkGate",
    "CompareOptions",
    "ComparisonSet",
    "Flip",
    "FlipReport",
    "GateReport",
    "GateVerdict",
    "Matched",
    "PairedRecords",
    "RegressionReport",
    "Relation",
    "Run",
    "RunCheck",
    "RunStatus",
    "Verdict",
    "build_flip_report",
    "check_path",
    "check_run",
    "compare_paths",
    "compare_results",
    "compare_runs",
    "discover_bundles",
    "find_runs",
    "gate_runs",
    "load_paired_records",
    "match_bundles",
    "write_gate_report",
    "write_regression",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
