"""Exporters: finished runs to inspect, mlflow, wandb, or to a third party's tracker."""

from nemo_evaluator.config.groups import EXPORTERS
from nemo_evaluator.exporters.base import ExportBundle, Exporter, ExportError
from nemo_evaluator.exporters.registry import export_bundles, get_exporter, register_exporter

__all__ = [
    "EXPORTERS",
    "ExportBundle",
    "ExportError",
    "Exporter",
    "export_bundles",
    "get_exporter",
    "register_exporter",
]
