"""The end of a run on a terminal of 80 columns: n is the number of problems, verdicts have their colour."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pexpect
import pytest
from nel_support import NEL, Nel, Serve, Sums

from nemo_evaluator.testing import Say

_COLOURS = {"VALID": 32, "DEGRADED": 33, "INVALID": 31}


def on_a_terminal(folder: Path, *words: str) -> str:
    env: Any = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")
    }
    child = pexpect.spawn(
        NEL,
        list(words),
        cwd=str(folder),
        env=env | {"TERM": "xterm"},
        encoding="utf-8",
        dimensions=(40, 80),
        timeout=60,
    )
    child.expect(pexpect.EOF)
    child.close()
    return str(child.before)


def adds(seen: Any) -> str:
    found = re.search(r"(\d+) \+ (\d+)", seen.prompt)
    return str(int(found[1]) + int(found[2])) if found else "?"


def adds_or_is_cut_off(seen: Any) -> str | Say:
    """Answer the problems whose first number is even, and end every other answer too early."""
    numbers = re.search(r"(\d+) \+ (\d+)", seen.prompt)
    if numbers is not None and int(numbers[1]) % 2 == 0:
        return adds(seen)
    return Say("I was about to", finish_reason="length")


@pytest.mark.parametrize(
    ("says", "verdict"),
    [
        (adds, "VALID"),
        (adds_or_is_cut_off, "DEGRADED"),
        (Say("I was about to", finish_reason="length"), "INVALID"),
        (Say(status=400), "INVALID"),
    ],
)
def test_problems_are_counted_and_the_verdict_is_coloured(
    says: Any, verdict: str, nel: Nel, serve: Serve, sums: Sums
) -> None:
    model = ("--model-url", serve(says).url, "--model-id", "m")
    bench = sums(12)
    shown = on_a_terminal(
        nel.folder, "eval", "run", "--bench", bench, *model, "--repeats", "3", "-o", "o"
    )
    assert f"\x1b[{_COLOURS[verdict]}m\x1b[1m{verdict}\x1b[0m" in shown
    plain = re.sub(r"\x1b\[\d*m", "", shown).replace("\r\x1b[2K", "\n")
    lines = plain.replace("\r\n", "\n").split("\n")
    assert [line for line in lines if len(line) > 80 and str(nel.folder) not in line] == []
    if verdict != "INVALID":
        (row,) = [line for line in lines if line.startswith(verdict)]
        assert re.search(r"\s12 x3\s", row), "twelve problems, asked three times; not 36"
    piped = nel("eval", "run", "--bench", bench, *model, "--repeats", "3", "-o", "p", code=None)
    assert "\x1b[" not in piped.stdout + piped.stderr
