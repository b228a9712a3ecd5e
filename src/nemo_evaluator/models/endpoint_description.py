"""The description of an endpoint as a type: the service's part of a fingerprint.

The type costs nothing at run time: import it under ``TYPE_CHECKING``.
"""

from typing import NotRequired, TypedDict

from nemo_evaluator.core.types import JsonDict


class EndpointDescription(TypedDict):
    """The settings of an endpoint that may change an answer, without ports and keys.

    ``service`` is the identity of a service that nel starts, or the host and the path of any other.
    """

    protocol: str
    model: str
    service: JsonDict
    generation: JsonDict
    extra_body: JsonDict
    reasoning_pattern: str | None
    interceptors: list[list[str | JsonDict]]
    interceptor_order: NotRequired[str]
