"""Exporters: finished runs to inspect, mlflow, wandb, or to a third party's tracker."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
