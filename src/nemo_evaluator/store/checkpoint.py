"""``checkpoint.json``: which benchmarks of a suite are finished, for people and tools. Resume reads the journals."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from nemo_evaluator.core.files import stored, write_json
from nemo_evaluator.core.types import JsonDict


class Checkpoint:
    """``checkpoint.json`` of an output folder; its paths are relative to that folder, so the folder can be moved."""

    def __init__(self, output_dir: Path, *, keep: bool) -> None:
        """Open the checkpoint of an output folder.

        Args:
            output_dir: The output folder of the suite.
            keep: Continue with the state of an earlier session instead of starting empty.
        """
        self._path = output_dir / "checkpoint.json"
        self._state: JsonDict = {"completed_benchmarks": {}, "failed_benchmarks": {}}
        if keep:
            # An unreadable checkpoint loses nothing: resume reads the journals.
            self._state |= stored(self._path)

    @property
    def reported_of(self) -> list[str] | None:
        """The bundles that the last reports were made from; None before the first reports."""
        bundles: list[str] | None = self._state.get("reported")
        return bundles

    def reported(self, bundles: list[str]) -> None:
        """Record the bundles that the reports were made from."""
        self._state["reported"] = bundles
        write_json(self._path, self._state)

    def planned(self, keys: Iterable[str]) -> None:
        """Record the benchmarks that will run, so that one that never starts is noticed."""
        self._state["planned_benchmarks"] = list(keys)
        write_json(self._path, self._state)

    def started(self, key: str, *, planned: int, done: int) -> None:
        """Record that a benchmark starts.

        Args:
            key: The benchmark's name in the suite.
            planned: How many samples it has.
            done: How many of them earlier sessions have finished.
        """
        session = {"at": round(time.time(), 3), "planned": planned, "done": done}
        self._state.setdefault("sessions", {})[key] = session
        write_json(self._path, self._state)

    def completed(self, key: str, bundle_path: Path) -> None:
        """Record that a benchmark finished, and where its bundle is; clears an earlier failure."""
        self._state["failed_benchmarks"].pop(key, None)
        self._state["completed_benchmarks"][key] = {
            "bundle_path": os.path.relpath(bundle_path, self._path.parent)
        }
        write_json(self._path, self._state)

    def failed(self, key: str, error: str, cause: str | None = None) -> None:
        """Record that a benchmark did not finish.

        Args:
            key: The benchmark's name in the suite.
            error: The error message.
            cause: The boundary that broke, if it is known.
        """
        self._state["completed_benchmarks"].pop(key, None)
        failure = {"error": error}
        if cause:
            failure["cause"] = cause
        self._state["failed_benchmarks"][key] = failure
        write_json(self._path, self._state)
