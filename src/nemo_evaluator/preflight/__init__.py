"""Everything that would stop a run, found before it starts: ``find_problems`` is the one way in."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
