"""One async client over a ``send`` function: protocols, transport, retries, the shared limiter, usage and price.

Names are resolved on first use, so that a command line that asks no model does not load an HTTP client.
"""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.models.client import Client as Client
    from nemo_evaluator.models.endpoint import Endpoint as Endpoint
    from nemo_evaluator.models.endpoint import Price as Price
    from nemo_evaluator.models.endpoint import StageSpec as StageSpec
    from nemo_evaluator.models.endpoint import Timeouts as Timeouts
    from nemo_evaluator.models.endpoint import endpoint_of as endpoint_of
    from nemo_evaluator.models.retry import RetryConfig as RetryConfig
    from nemo_evaluator.models.transport import Transport as Transport
    from nemo_evaluator.models.types import CallScope as CallScope
    from nemo_evaluator.models.types import ModelReply as ModelReply
    from nemo_evaluator.models.types import ModelRequest as ModelRequest
    from nemo_evaluator.models.types import Send as Send
    from nemo_evaluator.models.types import call_scope as call_scope

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "CallScope": "nemo_evaluator.models.types",
        "Client": "nemo_evaluator.models.client",
        "Endpoint": "nemo_evaluator.models.endpoint",
        "ModelReply": "nemo_evaluator.models.types",
        "ModelRequest": "nemo_evaluator.models.types",
        "Price": "nemo_evaluator.models.endpoint",
        "RetryConfig": "nemo_evaluator.models.retry",
        "Send": "nemo_evaluator.models.types",
        "StageSpec": "nemo_evaluator.models.endpoint",
        "Timeouts": "nemo_evaluator.models.endpoint",
        "Transport": "nemo_evaluator.models.transport",
        "call_scope": "nemo_evaluator.models.types",
        "endpoint_of": "nemo_evaluator.models.endpoint",
    },
)
