"""Scorers, pure and executed, and judges. Names resolve on first use, so importing the room costs nothing."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
