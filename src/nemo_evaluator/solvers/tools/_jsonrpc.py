"""JSON-RPC 2.0 as MCP uses it: messages out, answers in."""

from __future__ import annotations

from typing import Protocol

from nemo_evaluator.core.types import JsonDict


class RpcError(Exception):
    """The other side answered with an error."""

    def __init__(self, error: JsonDict) -> None:
        super().__init__(str(error.get("message") or error))
        self.code = error.get("code")


class Channel(Protocol):
    """A way to an MCP server. Both calls raise TransportError when the way is broken."""

    async def request(self, method: str, params: JsonDict, timeout: float) -> JsonDict:
        """Ask and wait. Raises RpcError for an error answer and TimeoutError when it takes too long."""
        ...

    async def notify(self, method: str) -> None:
        """Tell."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...


def result_of(answer: JsonDict) -> JsonDict:
    """The result of an answer. Raises RpcError when it is an error."""
    if "error" in answer:
        raise RpcError(answer["error"] if isinstance(answer["error"], dict) else {"message": answer["error"]})
    result = answer.get("result")
    return result if isinstance(result, dict) else {}


def refusal_of(message: JsonDict) -> JsonDict:
    """Our answer to what a server asks of us: a ping is answered, anything else we cannot do."""
    if message["method"] == "ping":
        return {"jsonrpc": "2.0", "id": message["id"], "result": {}}
    error = {"code": -32601, "message": f"{message['method']} is not supported"}
    return {"jsonrpc": "2.0", "id": message["id"], "error": error}
