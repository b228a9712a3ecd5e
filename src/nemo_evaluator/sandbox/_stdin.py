"""The stdin of a wrapped command: the line of its seal, then its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import IO

from nemo_evaluator.sandbox._wrapper import Seal


async def feed(writer: asyncio.StreamWriter, seal: Seal, stdin: bytes | IO[bytes] | None) -> None:
    """Write it all and close; a command that ends without reading it is none of our business."""
    with contextlib.suppress(ConnectionError):
        writer.write(seal.line)
        if isinstance(stdin, bytes):
            writer.write(stdin)
        elif stdin is not None:
            while data := stdin.read(1 << 18):
                writer.write(data)
                await writer.drain()
        await writer.drain()
        writer.write_eof()


async def pipe() -> tuple[int, asyncio.StreamWriter]:
    """(descriptor for the command, writer): never a file, which the command could read again from its beginning."""
    far, near = os.pipe()
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, os.fdopen(near, "wb", 0))
    return far, asyncio.StreamWriter(transport, protocol, None, loop)
