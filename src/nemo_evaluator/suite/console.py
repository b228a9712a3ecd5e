"""Messages and progress of a run, on the terminal and in ``nel_eval.log``."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, cast

from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless, terminal_width
from nemo_evaluator.core.wording import folded
from nemo_evaluator.engine.plan import ReusePlan
from nemo_evaluator.engine.progress import JsonProgress, LineProgress, Progress, SilentProgress
from nemo_evaluator.engine.tally import Tally
from nemo_evaluator.store.layout import LOG


class Console:
    """Writes lines to stderr and to the log of the run."""

    def __init__(
        self, output_dir: Path, *, as_json: bool, quiet: bool, interval: float, append: bool
    ) -> None:
        """Open the log.

        Args:
            output_dir: The folder of the run.
            as_json: Print progress as JSON lines.
            quiet: Print no progress.
            interval: Seconds between progress lines.
            append: Continue an existing log.
        """
        output_dir.mkdir(parents=True, exist_ok=True)
        log = (output_dir / LOG).open("a" if append else "w", encoding="utf-8", buffering=1)
        self._log = _Log(log)
        self._to_log_only = _same_file(sys.stderr, log)
        self.as_json = as_json
        self._quiet = quiet
        self._interval = interval

    def say(self, line: str) -> None:
        """Print a message, with secrets masked."""
        line = harmless(scrub(line))
        if not self._to_log_only:
            self._log.write(line + "\n")
        print(folded(line, terminal_width(sys.stderr)), file=sys.stderr, flush=True)

    def progress(self, *, together: bool = False) -> Progress:
        """Return the progress display: a live line, plain lines, JSON lines or none; the log always gets plain lines.

        Args:
            together: Whether benchmarks run in parallel, so that live lines would overwrite each other.
        """
        log = LineProgress(cast("TextIO", self._log), interval=self._interval, live=False)
        if self._quiet:
            if not self._to_log_only:
                return log
            return SilentProgress()
        if self.as_json:
            return _Both(JsonProgress(interval=self._interval), log)
        if self._to_log_only:
            return log
        # Benchmarks that run together cannot share a redrawn line; otherwise the terminal decides.
        live = False if together else None
        return _Both(LineProgress(interval=self._interval, live=live), log)

    def close(self) -> None:
        """Close the log."""
        self._log.close()


class _Log:
    """The log of a run. If it cannot be written (a full disk), the run continues without it after a message."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.name = file.name
        self._broken = False

    def write(self, text: str) -> None:
        """Append a text."""
        self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        """Flush the file."""
        self._try(self._file.flush)

    def close(self) -> None:
        """Close the file."""
        self._try(self._file.close)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except OSError as error:
            if not self._broken:
                print(
                    f"{self.name} is no longer written: {error.strerror}",
                    file=sys.stderr,
                    flush=True,
                )
            self._broken = True


class _Both:
    """Forwards progress to several displays."""

    def __init__(self, *parts: Progress) -> None:
        self._parts = parts

    def started(self, name: str, tally: Tally, reuse: ReusePlan | None, todo: int) -> None:
        """Report the start of a benchmark."""
        for part in self._parts:
            part.started(name, tally, reuse, todo)

    def finished(self, tally: Tally) -> None:
        """Report the end of a benchmark."""
        for part in self._parts:
            part.finished(tally)


def _same_file(one: TextIO, other: TextIO) -> bool:
    """Whether two open files are the same, as stderr and the log are in a background run."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except OSError:
        return False
