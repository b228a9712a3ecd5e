"""Exporters: send finished runs to Inspect, MLflow, W&B, or the tracker of a third party."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.config.groups import EXPORTERS as EXPORTERS
    from nemo_evaluator.exporters.base import ExportBundle as ExportBundle
    from nemo_evaluator.exporters.base import Exporter as Exporter
    from nemo_evaluator.exporters.base import ExportError as ExportError
    from nemo_evaluator.exporters.base import export_bundles as export_bundles
    from nemo_evaluator.exporters.base import get_exporter as get_exporter
    from nemo_evaluator.exporters.base import register_exporter as register_exporter

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "EXPORTERS": "nemo_evaluator.config.groups",
        "ExportBundle": "nemo_evaluator.exporters.base",
        "ExportError": "nemo_evaluator.exporters.base",
        "Exporter": "nemo_evaluator.exporters.base",
        "export_bundles": "nemo_evaluator.exporters.base",
        "get_exporter": "nemo_evaluator.exporters.base",
        "register_exporter": "nemo_evaluator.exporters.base",
    },
)
