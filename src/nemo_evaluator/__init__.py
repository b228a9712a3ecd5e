"""nel: an evaluator for language models and agents. Public names load on first use."""

from nemo_evaluator.core.lazy import lazy_names

__package_name__ = "nemo-evaluator"
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
