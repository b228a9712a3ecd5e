"""``http_pairs_dump``: writes the first requests with their replies, and every failed one, to a file."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.adapters import base
from nemo_evaluator.adapters.traffic import TrafficLog
from nemo_evaluator.config.fields import Count
from nemo_evaluator.core.errors import BoundaryError
from nemo_evaluator.core.files import dumps, write_atomic
from nemo_evaluator.core.secrets import MASK
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.types import ModelReply, ModelRequest

if TYPE_CHECKING:
    from nemo_evaluator.adapters.stage_stats import PairStats

# A header whose name contains one of these is masked.
_SECRET_NAMES: Final = ("authorization", "key", "token", "cookie", "secret")


@dataclass(eq=False)
class Interceptor(base.Observer):
    """Keeps ``first_n`` pairs and every reply that is not 200, up to ``max_bytes``; secrets are masked.

    During the run the pairs are lines of ``<dump_path>.part``, so memory does not grow; ``close`` writes the documented
    file from them.
    """

    place = base.Place.DUMP
    _count = 0
    dump_path: str
    first_n: Count = 50
    max_bytes: int = 100_000_000

    def __post_init__(self) -> None:
        self._path = Path(self.dump_path)
        part = self._path.with_name(f"{self._path.name}.part")
        part.unlink(missing_ok=True)
        self._log = TrafficLog(part, max_bytes=self.max_bytes)
        self._statuses: Counter[str] = Counter()

    def on_reply(self, request: ModelRequest, reply: ModelReply) -> None:
        """Count a reply, and keep it if it is one of the first or failed."""
        self._count += 1
        self._statuses[str(reply.status)] += 1
        if self._count <= self.first_n or reply.status != 200:
            response = {
                "status": reply.status,
                "headers": _masked(reply.headers),
                "body": reply.body or (reply.raw or b"").decode("utf-8", "replace"),
                "latency_ms": round(reply.latency_ms, 2),
            }
            self._keep(request, reply.sent or request.body, response)

    def on_error(self, request: ModelRequest, error: BoundaryError) -> None:
        """Keep a request that got no reply."""
        self._count += 1
        self._statuses["error"] += 1
        self._keep(request, request.body, {"status": None, "error": error.message})

    def stats(self) -> "PairStats":
        """The number of pairs kept and left out, and of replies per status."""
        return {
            "kept": self._log.written,
            "left_out": self._log.left_out,
            "statuses": dict(self._statuses),
        }

    async def close(self) -> None:
        """Write the documented file."""
        self._log.close()
        lines = self._log.path.read_bytes().splitlines() if self._log.written else []
        head = dumps({"metrics": dict(self._statuses), "left_out": self._log.left_out})[:-1]
        write_atomic(self._path, head + b',"pairs":[' + b",\n".join(lines) + b"]}\n")
        self._log.path.unlink(missing_ok=True)

    def _keep(self, request: ModelRequest, body: JsonDict, response: JsonDict) -> None:
        pair: dict[str, Any] = {
            "request_id": f"{self._count:012x}",
            "request": {"path": request.path, "headers": _masked(request.headers), "body": body},
            "response": response,
        }
        if request.session:
            pair["session_id"] = request.session
        self._log.write(pair)


def _masked(headers: Mapping[str, str]) -> dict[str, str]:
    masked_headers: dict[str, str] = {}
    for name, value in headers.items():
        lower_name = name.lower()
        is_secret = any(part in lower_name for part in _SECRET_NAMES)
        masked_headers[name] = MASK if is_secret else value
    return masked_headers
