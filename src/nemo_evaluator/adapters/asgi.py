"""The ASGI interface between the server and the applications on it: types, keys of the scope, the body of a request."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeAlias

from nemo_evaluator.adapters._access import token_of as token_of

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Respond: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

#: Key of a scope: the application puts a function here; it is called when the client disconnects before its answer.
LEAVE: Final = "nel.leave"
# The server sets this to True when the client has disconnected, also before there is such a function.
LEFT: Final = "nel.left"
#: Key of a scope: the server puts a function here that names the holder of the connection: False if it has too many.
NAME_HOLDER: Final = "nel.name_holder"
#: Key of a scope: the server puts a function here that closes the connection immediately.
DROP: Final = "nel.drop"
#: The largest body, in bytes.
LARGEST: Final = 64 * 2**20
#: Seconds for the body of a request.
BODY_BOUND: Final = 60.0


async def read_body(receive: Receive, hold: Callable[[int], None] | None = None) -> bytes | None:
    """Read the body of a request.

    Args:
        receive: Returns the next part.
        hold: Called with the size of each part; it may raise.

    Returns:
        The body; None if it is too large; empty if the client has disconnected.
    """
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b""
        part = message.get("body", b"")
        size += len(part)
        if size > LARGEST:
            return None
        if hold is not None:
            hold(len(part))
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)
