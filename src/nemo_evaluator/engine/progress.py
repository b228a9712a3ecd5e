"""Progress of a benchmark: a live line on a terminal, plain lines otherwise, JSON lines for scripts."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol, TextIO

from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.terminal import fitted, harmless
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.engine.tally import Tally

if TYPE_CHECKING:
    from nemo_evaluator.engine.plan import ReusePlan


_WIDTH: Final = 80
# Number of finished steps from which on the total cost is projected.
_ENOUGH_TO_PROJECT: Final = 20


class Progress(Protocol):
    """Is notified when a benchmark starts and ends, and reads the tally in between."""

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Handle the start of a benchmark; ``reuse`` is what an earlier run saved."""

    def finished(self, tally: Tally) -> None:
        """Handle the end of the loop."""


class SilentProgress:
    """Displays nothing."""

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Do nothing."""

    def finished(self, tally: Tally) -> None:
        """Do nothing."""


class _Ticking:
    """Calls ``tick`` at an interval from a separate thread, so that a busy event loop cannot delay it."""

    def __init__(self, stream: TextIO, interval: float) -> None:
        self._stream = stream
        self._interval = interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._name = ""

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Announce the plan and start ticking."""
        self._name = name
        self.announce(tally, reuse, todo)
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(tally,), daemon=True)
        self._thread.start()

    def finished(self, tally: Tally) -> None:
        """Stop ticking and display the final counts."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.tick(tally, last=True)

    def _run(self, tally: Tally) -> None:
        while not self._stop.wait(self._interval):
            self.tick(tally)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def announce(self, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Display the plan."""
        raise NotImplementedError

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """Display the counts so far, or the final ones."""
        raise NotImplementedError


class LineProgress(_Ticking):
    """Plain lines for pipes and logs; on a terminal, one line that is redrawn."""

    def __init__(
        self, stream: TextIO | None = None, *, interval: float = 60.0, live: bool | None = None
    ) -> None:
        """Create the display.

        Args:
            stream: Where to write; None for stderr.
            interval: Seconds between plain lines.
            live: Redraw one line; None for only on terminals and in notebooks.
        """
        stream = stream or sys.stderr
        if live is None:
            # A notebook is not a terminal, but redraws a line like one.
            live = stream.isatty() or "ipykernel" in sys.modules
        self._live = live
        super().__init__(stream, 0.25 if self._live else interval)

    def announce(self, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Print the number of steps, and what is reused."""
        lines = ""
        if reuse is not None:
            lines = f"{self._name}: resume: {describe_reuse(reuse)}\n"
        lines += f"{self._name}: {todo} of {counted(tally.planned, 'sample')} to run\n"
        self._write(lines)

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """Print rate, ETA, score so far, failures by cause and requests in flight."""
        line = f"{self._name}: {describe(tally)}"
        if self._live:
            # A line as wide as the terminal would wrap, and every redraw would add another line.
            line = f"\r\x1b[2K{fitted(line, self._width() - 1)}"
        if last or not self._live:
            line += "\n"
        self._write(line)

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        except (OSError, ValueError):
            return _WIDTH


class JsonProgress(_Ticking):
    """Prints one JSON object per line."""

    def __init__(self, stream: TextIO | None = None, *, interval: float = 60.0) -> None:
        super().__init__(stream or sys.stdout, interval)

    def announce(self, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Print ``event: started``."""
        reasons = dict(reuse.reasons) if reuse else None
        self._emit("started", {"planned": tally.planned, "todo": todo, "reuse": reasons})

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """Print ``event: progress``, or ``finished``."""
        self._emit("finished" if last else "progress", _facts(tally))

    def _emit(self, event: str, facts: JsonDict) -> None:
        document = {"event": event, "benchmark": self._name, **facts}
        self._write(f"{dumps(document).decode()}\n")


def describe(tally: Tally) -> str:
    """Describe a running benchmark in one line."""
    facts = [f"{tally.done}/{tally.planned}", *_troubles(tally)]
    if tally.mean_reward is not None:
        metric = "mean_reward" if tally.fractional else "pass@1"
        facts.append(f"{metric} {tally.mean_reward:.3f}")
    facts.append(f"{tally.rate:.1f} steps/s")
    if tally.eta_seconds is not None and tally.done < tally.planned:
        facts.append(f"ETA {clock(tally.eta_seconds)}")
    if tally.in_flight:
        facts.append(f"{tally.in_flight} in flight")
    if tally.tokens:
        facts.append(f"{tally.tokens:,} tokens")
    if tally.cost_usd:
        facts.append(_cost(tally, tally.cost_usd))
    return " | ".join(facts)


def _cost(tally: Tally, cost_usd: float) -> str:
    """Return the cost so far, with a projection once enough steps are done."""
    if tally.done < _ENOUGH_TO_PROJECT:
        return f"${cost_usd:.4f}"
    cost_per_step = cost_usd / max(1, tally.done - tally.reused)
    projected = cost_per_step * (tally.planned - tally.reused)
    return f"${cost_usd:.4f} of about ${projected:.2f}"


def _troubles(tally: Tally) -> Iterator[str]:
    """Yield outages, retries and failures. They come first, since a narrow terminal cuts off the end of the line."""
    outage = tally.health.paused
    if outage is not None:
        now = time.monotonic()
        delay = max(0, math.ceil(outage.next_try - now))
        deadline = clock(max(0.0, outage.gives_up - now))
        yield f"paused, next try in {delay} s, gives up in {deadline}: {outage.service}: {harmless(outage.reason)}"
    # Copies, because other threads change the counts meanwhile.
    # The plus drops reasons whose count went back to 0.
    retrying = +tally.health.retrying.copy()
    if retrying:
        ((most_frequent, _),) = retrying.most_common(1)
        yield f"retrying: {retrying.total()}, {most_frequent}"
    failed = tally.failed.copy()
    if failed:
        causes = ", ".join(f"{count} {cause}" for cause, count in failed.items())
        yield f"failed: {causes}"


def describe_reuse(reuse: ReusePlan) -> str:
    """Describe what is reused, and why the rest is run again."""
    reasons = dict(reuse.reasons)
    unchanged = reasons.pop("unchanged", 0)
    new_count = reasons.pop("new", 0)
    counts = [f"{unchanged} reused"]
    for reason, count in reasons.items():
        counts.append(f"{count} redone: {reason}")
    if new_count:
        counts.append(f"{new_count} new")
    return ", ".join(counts)


def _facts(tally: Tally) -> JsonDict:
    """Return the counts as data."""
    paused: str | None = None
    outage = tally.health.paused
    if outage is not None:
        paused = f"{outage.service}: {outage.reason}"
    # A copy, because other threads change the counts meanwhile.
    retrying = tally.health.retrying.copy()
    return {
        "at": round(time.time(), 3),
        "done": tally.done,
        "planned": tally.planned,
        "scored": tally.scored,
        "failed": dict(tally.failed),
        "mean_reward": tally.mean_reward,
        "steps_per_second": round(tally.rate, 2),
        "eta_seconds": tally.eta_seconds,
        "in_flight": tally.in_flight,
        "retrying": sum(retrying.values()),
        "paused": paused,
        "tokens": tally.tokens,
        "cost_usd": tally.cost_usd or None,
    }


def clock(seconds: float) -> str:
    """Format a duration as hours, minutes and seconds."""
    minutes, remaining_seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{remaining_seconds:02}"
    return f"{minutes}:{remaining_seconds:02}"
