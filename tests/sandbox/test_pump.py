"""The pipes of a command: every descriptor has one owner, which closes it once."""

import asyncio
import io
import os
from collections.abc import Callable

import pytest
import uvloop

from nemo_evaluator.sandbox import _pump


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_our_end_of_a_stdin_pipe_is_closed_and_only_once(
    loops: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere: list[int] = []

    class Beside(io.FileIO):
        """Another thread opens a file just before this one is closed: it gets the lowest number that is free."""

        def close(self) -> None:
            if not self.closed:
                elsewhere.append(os.open(os.devnull, os.O_RDONLY))
            super().close()

    async def main() -> bytes:
        far, writer = await _pump.stdin_pipe()
        writer.write(b"in")
        writer.close()
        await writer.wait_closed()
        # Reading comes to an end when our end is closed.
        said = os.read(far, 9) + os.read(far, 9)
        os.close(far)
        return said

    monkeypatch.setattr(
        os, "fdopen", lambda fd, mode, _, closefd=True: Beside(fd, mode.rstrip("b"), closefd)
    )
    with asyncio.Runner(loop_factory=loops) as runner:
        assert runner.run(main()) == b"in"
    assert elsewhere
    for fd in elsewhere:
        os.close(fd)
