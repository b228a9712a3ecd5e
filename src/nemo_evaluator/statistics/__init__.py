"""Pure statistics on columns of numbers: intervals, pass@k, paired tests, multiplicity, sequential rules, power."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
