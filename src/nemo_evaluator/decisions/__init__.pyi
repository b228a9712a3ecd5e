from nemo_evaluator.decisions.check.check_run import check_path as check_path
from nemo_evaluator.decisions.check.check_run import check_run as check_run
from nemo_evaluator.decisions.check.findings import RunCheck as RunCheck
from nemo_evaluator.decisions.check.findings import RunStatus as RunStatus
from nemo_evaluator.decisions.compare.changes import Flip as Flip
from nemo_evaluator.decisions.compare.changes import FlipReport as FlipReport
from nemo_evaluator.decisions.compare.changes import build_flip_report as build_flip_report
from nemo_evaluator.decisions.compare.compare_runs import CompareOptions as CompareOptions
from nemo_evaluator.decisions.compare.compare_runs import PairedRecords as PairedRecords
from nemo_evaluator.decisions.compare.compare_runs import compare_results as compare_results
from nemo_evaluator.decisions.compare.compare_runs import compare_runs as compare_runs
from nemo_evaluator.decisions.compare.compare_runs import load_paired_records as load_paired_records
from nemo_evaluator.decisions.compare.compare_set import ComparisonSet as ComparisonSet
from nemo_evaluator.decisions.compare.compare_set import compare_paths as compare_paths
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
