"""Datasets: a URI becomes rows that are read when they are asked for (hub, files, mirror, revision lock)."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
