"""One async client over a ``send`` function: protocols, transport, retries, the shared limiter, usage and price.

Names are resolved on first use, so that a command line that asks no model does not load an HTTP client.
"""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
