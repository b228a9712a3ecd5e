"""Reports: bundles on disk → one typed model → markdown, html, csv, json, latex."""

from nemo_evaluator.reports.load import load_bundle, load_report
from nemo_evaluator.reports.model import BenchmarkReport, EvalReport
from nemo_evaluator.reports.render import RENDERERS, SUFFIXES, render, write_reports
from nemo_evaluator.reports.trajectories import write_trajectories_report
from nemo_evaluator.runs.find import find_bundles
from nemo_evaluator.runs.scores import Score

__all__ = [
    "RENDERERS",
    "SUFFIXES",
    "BenchmarkReport",
    "EvalReport",
    "Score",
    "find_bundles",
    "load_bundle",
    "load_report",
    "render",
    "write_reports",
    "write_trajectories_report",
]
