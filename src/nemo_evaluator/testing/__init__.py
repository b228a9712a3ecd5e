"""What we and our users test with: a scripted model server, with faults by script, and the rules of a trajectory."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
