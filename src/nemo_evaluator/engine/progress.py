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


class Progress(Protocol):
    """Told when a benchmark starts and ends; looks at the tally in between."""

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """The plan is known; ``reuse`` says what an earlier run saved."""

    def finished(self, tally: Tally) -> None:
        """The loop has ended."""


class SilentProgress:
    """Says nothing."""

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Nothing."""

    def finished(self, tally: Tally) -> None:
        """Nothing."""


class _Ticking:
    """Calls ``tick`` at an interval from a thread of its own, so that a busy loop cannot silence it."""

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
        """Stop ticking and say the last word."""
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
        """The first word."""
        raise NotImplementedError

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """A word in between, or the last one."""
        raise NotImplementedError


class LineProgress(_Ticking):
    """Plain lines, for pipes and logs; on a terminal one line that is drawn again."""

    def __init__(
        self, stream: TextIO | None = None, *, interval: float = 60.0, live: bool | None = None
    ) -> None:
        stream = stream or sys.stderr
        # A notebook is no terminal, and draws a line again all the same.
        if live is None:
            self._live = stream.isatty() or "ipykernel" in sys.modules
        else:
            self._live = live
        super().__init__(stream, 0.25 if self._live else interval)

    def announce(self, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """How many steps, and what is reused."""
        if reuse is not None:
            reused = f"{self._name}: resume: {describe_reuse(reuse)}\n"
        else:
            reused = ""
        self._write(f"{reused}{self._name}: {todo} of {counted(tally.planned, 'sample')} to run\n")

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """Rate, ETA, score so far, failures by cause, requests in flight."""
        line = f"{self._name}: {describe(tally)}"
        # A line that is as wide as the terminal would go on in the next one, and every redraw add one more.
        if self._live:
            shown = f"\r\x1b[2K{fitted(line, self._width() - 1)}"
        else:
            shown = line
        self._write(shown if self._live and not last else f"{shown}\n")

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        except (OSError, ValueError):
            return _WIDTH


class JsonProgress(_Ticking):
    """One JSON object a line."""

    def __init__(self, stream: TextIO | None = None, *, interval: float = 60.0) -> None:
        super().__init__(stream or sys.stdout, interval)

    def announce(self, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """``event: started``."""
        self._emit(
            "started",
            {
                "planned": tally.planned,
                "todo": todo,
                "reuse": dict(reuse.reasons) if reuse else None,
            },
        )

    def tick(self, tally: Tally, *, last: bool = False) -> None:
        """``event: progress``, or ``finished``."""
        self._emit("finished" if last else "progress", _facts(tally))

    def _emit(self, event: str, facts: JsonDict) -> None:
        self._write(dumps({"event": event, "benchmark": self._name, **facts}).decode() + "\n")


def describe(tally: Tally) -> str:
    """One line about a running benchmark."""
    parts = [f"{tally.done}/{tally.planned}", *_troubles(tally)]
    if tally.mean_reward is not None:
        parts.append(f"{'mean_reward' if tally.fractional else 'pass@1'} {tally.mean_reward:.3f}")
    parts.append(f"{tally.rate:.1f} steps/s")
    if tally.eta_seconds is not None and tally.done < tally.planned:
        parts.append(f"ETA {clock(tally.eta_seconds)}")
    if tally.in_flight:
        parts.append(f"{tally.in_flight} in flight")
    if tally.tokens:
        parts.append(f"{tally.tokens:,} tokens")
    if tally.cost_usd:
        projected = (
            tally.cost_usd / max(1, tally.done - tally.reused) * (tally.planned - tally.reused)
        )
        parts.append(
            f"${tally.cost_usd:.4f}" + (f" of about ${projected:.2f}" if tally.done >= 20 else "")
        )
    return " | ".join(parts)


def _troubles(tally: Tally) -> Iterator[str]:
    """What keeps the benchmark from going on as it should, which comes first: a narrow line is cut at its end."""
    outage = tally.health.paused
    if outage is not None:
        now = time.monotonic()
        wait = max(0, math.ceil(outage.next_try - now))
        left = clock(max(0.0, outage.gives_up - now))
        yield f"paused, next try in {wait} s, gives up in {left}: {outage.service}: {harmless(outage.reason)}"
    # A copy: requests come and go while this is read.
    retrying = {why: count for why, count in tally.health.retrying.copy().items() if count > 0}
    if retrying:
        yield f"retrying: {sum(retrying.values())}, {max(retrying, key=lambda why: retrying[why])}"
    if tally.failed:
        yield "failed: " + ", ".join(
            f"{count} {cause}" for cause, count in tally.failed.copy().items()
        )


def describe_reuse(reuse: ReusePlan) -> str:
    """What is reused and why the rest is redone."""
    reasons = dict(reuse.reasons)
    unchanged = reasons.pop("unchanged", 0)
    new = reasons.pop("new", 0)
    rest = [f"{count} redone: {reason}" for reason, count in reasons.items()]
    return ", ".join([f"{unchanged} reused", *rest, *([f"{new} new"] if new else [])])


def _facts(tally: Tally) -> JsonDict:
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
        "retrying": sum(tally.health.retrying.copy().values()),
        "paused": (outage := tally.health.paused) and f"{outage.service}: {outage.reason}",
        "tokens": tally.tokens,
        "cost_usd": tally.cost_usd or None,
    }


def clock(seconds: float) -> str:
    """A duration for people."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}"
