"""Decisions on finished runs: compare, gate, check, power. Names are loaded on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.decisions.check.check_run import check_path as check_path
    from nemo_evaluator.decisions.check.check_run import check_run as check_run
    from nemo_evaluator.decisions.check.findings import RunCheck as RunCheck
    from nemo_evaluator.decisions.check.findings import RunStatus as RunStatus
    from nemo_evaluator.decisions.compare.changes import Flip as Flip
    from nemo_evaluator.decisions.compare.changes import FlipReport as FlipReport
    from nemo_evaluator.decisions.compare.changes import build_flip_report as build_flip_report
    from nemo_evaluator.decisions.compare.compare_runs import PairedRecords as PairedRecords
    from nemo_evaluator.decisions.compare.compare_runs import compare_results as compare_results
    from nemo_evaluator.decisions.compare.compare_runs import compare_runs as compare_runs
    from nemo_evaluator.decisions.compare.compare_runs import (
        load_paired_records as load_paired_records,
    )
    from nemo_evaluator.decisions.compare.compare_set import ComparisonSet as ComparisonSet
    from nemo_evaluator.decisions.compare.compare_set import compare_paths as compare_paths
    from nemo_evaluator.decisions.compare.options import CompareOptions as CompareOptions
    from nemo_evaluator.decisions.compare.report import RegressionReport as RegressionReport
    from nemo_evaluator.decisions.compare.report import write_report
    from nemo_evaluator.decisions.compare.verdict import Relation as Relation
    from nemo_evaluator.decisions.compare.verdict import Verdict as Verdict
    from nemo_evaluator.decisions.gate.gate_runs import gate_runs as gate_runs
    from nemo_evaluator.decisions.gate.report import BenchmarkGate as BenchmarkGate
    from nemo_evaluator.decisions.gate.report import GateReport as GateReport
    from nemo_evaluator.decisions.gate.report import GateVerdict as GateVerdict
    from nemo_evaluator.decisions.match import Matched as Matched
    from nemo_evaluator.decisions.match import discover_bundles as discover_bundles
    from nemo_evaluator.decisions.match import match_bundles as match_bundles
    from nemo_evaluator.runs.bundle import Bundle
    from nemo_evaluator.runs.find import find_runs as find_runs

    Run = Bundle
    write_gate_report = write_report
    write_regression = write_report

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "BenchmarkGate": "nemo_evaluator.decisions.gate.report",
        "CompareOptions": "nemo_evaluator.decisions.compare.options",
        "ComparisonSet": "nemo_evaluator.decisions.compare.compare_set",
        "Flip": "nemo_evaluator.decisions.compare.changes",
        "FlipReport": "nemo_evaluator.decisions.compare.changes",
        "GateReport": "nemo_evaluator.decisions.gate.report",
        "GateVerdict": "nemo_evaluator.decisions.gate.report",
        "Matched": "nemo_evaluator.decisions.match",
        "PairedRecords": "nemo_evaluator.decisions.compare.compare_runs",
        "RegressionReport": "nemo_evaluator.decisions.compare.report",
        "Relation": "nemo_evaluator.decisions.compare.verdict",
        "Run": "nemo_evaluator.runs.bundle:Bundle",
        "RunCheck": "nemo_evaluator.decisions.check.findings",
        "RunStatus": "nemo_evaluator.decisions.check.findings",
        "Verdict": "nemo_evaluator.decisions.compare.verdict",
        "build_flip_report": "nemo_evaluator.decisions.compare.changes",
        "check_path": "nemo_evaluator.decisions.check.check_run",
        "check_run": "nemo_evaluator.decisions.check.check_run",
        "compare_paths": "nemo_evaluator.decisions.compare.compare_set",
        "compare_results": "nemo_evaluator.decisions.compare.compare_runs",
        "compare_runs": "nemo_evaluator.decisions.compare.compare_runs",
        "discover_bundles": "nemo_evaluator.decisions.match",
        "find_runs": "nemo_evaluator.runs.find",
        "gate_runs": "nemo_evaluator.decisions.gate.gate_runs",
        "load_paired_records": "nemo_evaluator.decisions.compare.compare_runs",
        "match_bundles": "nemo_evaluator.decisions.match",
        "write_gate_report": "nemo_evaluator.decisions.compare.report:write_report",
        "write_regression": "nemo_evaluator.decisions.compare.report:write_report",
    },
)
