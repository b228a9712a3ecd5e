"""One async client over a ``send`` function: protocols, transport, retries, the shared limiter, usage and price.

Names are resolved on first use, so that a command line that asks no model does not load an HTTP client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_evaluator.models.client import Client
    from nemo_evaluator.models.endpoint import Endpoint, Price, StageSpec, Timeouts, endpoint_of
    from nemo_evaluator.models.retry import RetryConfig
    from nemo_evaluator.models.transport import Transport
    from nemo_evaluator.models.types import CallScope, ModelReply, ModelRequest, Send, call_scope

_HOMES = {
    "CallScope": "types",
    "Client": "client",
    "Endpoint": "endpoint",
    "ModelReply": "types",
    "ModelRequest": "types",
    "Price": "endpoint",
    "RetryConfig": "retry",
    "Send": "types",
    "StageSpec": "endpoint",
    "Timeouts": "endpoint",
    "Transport": "transport",
    "call_scope": "types",
    "endpoint_of": "endpoint",
}

__all__ = [
    "CallScope",
    "Client",
    "Endpoint",
    "ModelReply",
    "ModelRequest",
    "Price",
    "RetryConfig",
    "Send",
    "StageSpec",
    "Timeouts",
    "Transport",
    "call_scope",
    "endpoint_of",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
