"""Which benchmarks of a suite are done: a view for people and tools. Resume itself trusts the journals only."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

from nemo_evaluator.core.files import stored, write_json
from nemo_evaluator.core.types import JsonDict


class Checkpoint:
    """``checkpoint.json`` of an output folder; its paths are relative to that folder, which may be moved."""

    def __init__(self, output_dir: Path, *, keep: bool) -> None:
        self._path = output_dir / "checkpoint.json"
        self._state: JsonDict = {"completed_benchmarks": {}, "failed_benchmarks": {}}
        if keep:
            # Nothing is lost where it cannot be read: the journals are asked.
            self._state |= stored(self._path)

    @property
    def reported_of(self) -> list[str] | None:
        """The bundles of which the reports were last made."""
        found: list[str] | None = self._state.get("reported")
        return found

    def reported(self, bundles: list[str]) -> None:
        self._state["reported"] = bundles
        write_json(self._path, self._state)

    def planned(self, keys: Iterable[str]) -> None:
        """Note what is to be run, so that a benchmark that never started is missed."""
        self._state["planned_benchmarks"] = list(keys)
        write_json(self._path, self._state)

    def started(self, key: str, *, planned: int, done: int) -> None:
        """Note that a benchmark begins: how many steps it has, and how many of them an earlier session has done."""
        session = {"at": round(time.time(), 3), "planned": planned, "done": done}
        self._state.setdefault("sessions", {})[key] = session
        write_json(self._path, self._state)

    def completed(self, key: str, bundle_path: Path) -> None:
        self._state["failed_benchmarks"].pop(key, None)
        self._state["completed_benchmarks"][key] = {
            "bundle_path": os.path.relpath(bundle_path, self._path.parent)
        }
        write_json(self._path, self._state)

    def failed(self, key: str, error: str, cause: str | None = None) -> None:
        """Note a benchmark that did not finish, and the boundary that broke where one is known."""
        self._state["completed_benchmarks"].pop(key, None)
        self._state["failed_benchmarks"][key] = {"error": error} | (
            {"cause": cause} if cause else {}
        )
        write_json(self._path, self._state)
