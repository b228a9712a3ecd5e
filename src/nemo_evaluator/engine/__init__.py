"""The engine: plan, loop, step. Public names are imported on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.adapters.model_client import ModelClient as ModelClient
    from nemo_evaluator.decisions import BenchmarkGate as BenchmarkGate
    from nemo_evaluator.decisions import FlipReport as FlipReport
    from nemo_evaluator.decisions import GateReport as GateReport
    from nemo_evaluator.decisions import RegressionReport as RegressionReport
    from nemo_evaluator.decisions import build_flip_report as build_flip_report
    from nemo_evaluator.decisions import compare_results as compare_results
    from nemo_evaluator.decisions import compare_runs as compare_runs
    from nemo_evaluator.decisions import discover_bundles as discover_bundles
    from nemo_evaluator.decisions import gate_runs as gate_runs
    from nemo_evaluator.decisions import load_paired_records as load_paired_records
    from nemo_evaluator.decisions import match_bundles as match_bundles
    from nemo_evaluator.decisions import write_gate_report as write_gate_report
    from nemo_evaluator.decisions import write_regression as write_regression
    from nemo_evaluator.engine.api import run_evaluation as run_evaluation
    from nemo_evaluator.engine.api import write_all as write_all
    from nemo_evaluator.engine.evaluation import evaluate as evaluate
    from nemo_evaluator.engine.job import Evaluation as Evaluation
    from nemo_evaluator.engine.merge import merge_shards as merge_shards

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "BenchmarkGate": "nemo_evaluator.decisions",
        "Evaluation": "nemo_evaluator.engine.job",
        "FlipReport": "nemo_evaluator.decisions",
        "GateReport": "nemo_evaluator.decisions",
        "ModelClient": "nemo_evaluator.adapters.model_client",
        "RegressionReport": "nemo_evaluator.decisions",
        "build_flip_report": "nemo_evaluator.decisions",
        "compare_results": "nemo_evaluator.decisions",
        "compare_runs": "nemo_evaluator.decisions",
        "discover_bundles": "nemo_evaluator.decisions",
        "evaluate": "nemo_evaluator.engine.evaluation",
        "gate_runs": "nemo_evaluator.decisions",
        "load_paired_records": "nemo_evaluator.decisions",
        "match_bundles": "nemo_evaluator.decisions",
        "merge_shards": "nemo_evaluator.engine.merge",
        "run_evaluation": "nemo_evaluator.engine.api",
        "write_all": "nemo_evaluator.engine.api",
        "write_gate_report": "nemo_evaluator.decisions",
        "write_regression": "nemo_evaluator.decisions",
    },
)
