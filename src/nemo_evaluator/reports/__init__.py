"""Reports: bundles become one typed model, which is rendered as markdown, HTML, CSV, JSON or LaTeX."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.reports._page import style_sheet as style_sheet
    from nemo_evaluator.reports.formats import RENDERERS as RENDERERS
    from nemo_evaluator.reports.formats import SUFFIXES as SUFFIXES
    from nemo_evaluator.reports.formats import render as render
    from nemo_evaluator.reports.formats import write_reports as write_reports
    from nemo_evaluator.reports.model import BenchmarkReport as BenchmarkReport
    from nemo_evaluator.reports.model import EvalReport as EvalReport
    from nemo_evaluator.reports.model import load_bundle as load_bundle
    from nemo_evaluator.reports.model import load_report as load_report
    from nemo_evaluator.reports.trajectories import (
        write_trajectories_report as write_trajectories_report,
    )
    from nemo_evaluator.runs.find import find_bundles as find_bundles
    from nemo_evaluator.runs.scores import Score as Score

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "BenchmarkReport": "nemo_evaluator.reports.model",
        "EvalReport": "nemo_evaluator.reports.model",
        "RENDERERS": "nemo_evaluator.reports.formats",
        "SUFFIXES": "nemo_evaluator.reports.formats",
        "Score": "nemo_evaluator.runs.scores",
        "find_bundles": "nemo_evaluator.runs.find",
        "load_bundle": "nemo_evaluator.reports.model",
        "load_report": "nemo_evaluator.reports.model",
        "render": "nemo_evaluator.reports.formats",
        "style_sheet": "nemo_evaluator.reports._page",
        "write_reports": "nemo_evaluator.reports.formats",
        "write_trajectories_report": "nemo_evaluator.reports.trajectories",
    },
)
