"""Environments: the contract, the @benchmark API, URI schemes. Public names load on first use."""

from nemo_evaluator.core.lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
