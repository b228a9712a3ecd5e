"""The interceptor pipeline, the interceptors (one file each), and the proxy that puts the pipeline behind HTTP."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
