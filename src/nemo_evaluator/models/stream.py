"""A stream of bytes that is always let go of: read to its end, broken, or left before its first byte."""

from collections.abc import AsyncIterator, Callable
from typing import Any, Self, TypeAlias

OnEnd: TypeAlias = Callable[[BaseException | None], None]


class Stream:
    """Passes bytes on; ``on_end`` is called exactly once, with the error that ended the stream, if one did."""

    __slots__ = ("_closes", "_source", "on_end")

    def __init__(self, source: AsyncIterator[bytes], on_end: OnEnd | None = None, *, closes: Any = None) -> None:
        self._source, self.on_end, self._closes = source, on_end, closes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._source.__anext__()
        except StopAsyncIteration:
            self._end(None)
            raise
        except BaseException as error:
            self._end(error)
            raise

    async def aclose(self) -> None:
        """Leave the stream; what it stands on is closed too."""
        for inner in (self._source, self._closes):
            close = getattr(inner, "aclose", None)
            if close is not None:
                await close()
        self._end(GeneratorExit())

    def _end(self, error: BaseException | None) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end(error)
