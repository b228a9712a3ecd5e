"""Progress on narrow terminals: one line that is drawn again, never two."""

import os
import pty
import struct
import termios
import time
from fcntl import ioctl

import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.terminal import cells, fitted
from nemo_evaluator.engine.progress import LineProgress, describe
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.models.health import Outage


def busy() -> Tally:
    tally = Tally(
        planned=13190,
        scored=9500,
        reward_sum=7000.0,
        in_flight=256,
        tokens=12_345_678,
        cost_usd=12.5,
    )
    tally.failed.update(transport=677, judge=12, sandbox=3)
    tally.health.retrying["HTTP 500"] = 37
    return tally


@pytest.mark.parametrize("columns", [80, 60, 20])
def test_the_live_line_never_wraps(columns: int) -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    tally = busy()
    with os.fdopen(theirs, "w") as stream:
        progress = LineProgress(stream)
        progress._name = "数学" + "a_benchmark_with_quite_a_name"
        progress.tick(tally)
        tally.health.outage = Outage(
            "model", "no connection: " + "x" * 100, time.monotonic() + 9, time.monotonic() + 90
        )
        progress.finished(tally)
        # A terminal hands over what it has: two lines may come in two pieces.
        drawn = ""
        while drawn.count("\r") < 2:
            drawn += os.read(ours, 4096).decode()
    os.close(ours)
    lines = [line.removeprefix("\x1b[2K") for line in drawn.rstrip("\r\n").split("\r")[1:]]
    assert len(lines) == 2 and "\n" not in drawn.rstrip("\r\n")
    assert all(0 < cells(line) < columns for line in lines), lines


def test_troubles_come_before_what_is_left_out_first() -> None:
    line = fitted(f"gsm8k: {describe(busy())}", 79)
    assert line.startswith("gsm8k: 10192/13190 | retrying: 37, HTTP 500 | failed: 677 transport")


def test_a_retry_is_counted_while_it_waits() -> None:
    health = Tally().health
    with health.retry(TransportError("model: HTTP 500: no", status=500)):
        assert health.retrying["HTTP 500"] == 1
    assert health.retrying["HTTP 500"] == 0
