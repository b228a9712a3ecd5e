"""What came back from a server, before anybody reads it."""

from collections.abc import AsyncIterator

from nemo_evaluator.core.values import dataclass, field


@dataclass(slots=True)
class Answer:
    """The status and headers (names in lower case) of an answer, and its body unless that is a stream."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    sent_at: float = 0.0
    first_byte_at: float = 0.0
    last_byte_at: float = 0.0

    @property
    def content_type(self) -> str:
        """The media type, without parameters."""
        said = self.headers.get("content-type", "")
        return said if said == "application/json" else said.partition(";")[0].strip().lower()
