"""What we and our users test with: scripted servers, of models and of vendors' batch APIs, with faults by script."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
