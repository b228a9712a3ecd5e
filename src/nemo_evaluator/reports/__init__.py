"""Reports: bundles on disk → one typed model → markdown, html, csv, json, latex."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
