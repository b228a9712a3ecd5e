"""An event loop of the fastest kind at hand."""

import asyncio
from collections.abc import Coroutine
from typing import Any

try:
    import uvloop
except ImportError:  # not built for this platform
    uvloop = None


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fresh loop: uvloop where there is one."""
    return uvloop.new_event_loop() if uvloop is not None else asyncio.new_event_loop()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run ``main`` on a fresh loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)
