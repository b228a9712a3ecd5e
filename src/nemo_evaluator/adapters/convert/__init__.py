"""Conversion between protocols, with chat completions in the middle: an agent may speak one and the service another."""

from nemo_evaluator.adapters.convert.base import Speech
from nemo_evaluator.adapters.convert.route import ROUTES, SPEECH, Route, route_of

__all__ = ["ROUTES", "SPEECH", "Route", "Speech", "route_of"]
