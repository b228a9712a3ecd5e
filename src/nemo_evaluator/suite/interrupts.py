"""Signals during a suite, from Ctrl-C or `nel eval stop`: the first lets requests finish, the second does not."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from nemo_evaluator.core.errors import EXIT_INTERRUPTED
from nemo_evaluator.engine.halt import Halt, HaltKind
from nemo_evaluator.suite.results import Say

_GRACE: Final = 10.0
# SIGUSR1 is forwarded by srun, and sent by schedulers as a warning before the time limit.
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
# Number of signals after which the process exits immediately.
_SIGNALS_TO_QUIT: Final = 3


class Interrupts:
    """Stops the running benchmarks on a signal, or cancels the suite if none is running.

    Attributes:
        running: The halts of the running benchmarks.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._count = 0
        self._task: asyncio.Task[object] | None = None
        self.running: list[Halt] = []

    @property
    def asked(self) -> bool:
        """True once a signal was received."""
        return self._count > 0

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle signals within the block."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        """Stop gently on the first signal, immediately on the second, and exit on the third."""
        self._count += 1
        if not self.running:
            if self._task is not None:
                self._task.cancel()
        elif self._count == 1:
            grace = f"requests in flight get {_GRACE:.0f} s to finish"
            self._say(f"stopping: nothing new is sent, {grace}; press Ctrl-C again to quit now")
            for halt in self.running:
                halt.set(HaltKind.INTERRUPT, "interrupted", drain=_GRACE)
        else:
            for halt in self.running:
                halt.hurry()
        if self._count >= _SIGNALS_TO_QUIT:
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
