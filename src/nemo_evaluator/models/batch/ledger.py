"""The ledger of a service's batches: every step is synced to disk before the next call, and so are the results.

::

    prepared → uploading → uploaded → submitting → submitted → [cancelling] → collected
                                          └──────→ absent (the vendor never got it)

Only the user can read the files. The ledger has the digest of each file of results: a file that was changed afterwards
is ignored, and its batch counts as submitted again. Lines of results that cannot be parsed are passed over: the other
lines count.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import file_sha256
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field
from nemo_evaluator.core.wording import counted
from nemo_evaluator.store.journal import Journal
from nemo_evaluator.store.sealed import Damage, scan_records

NAME: Final = "batches.jsonl"
log = logging.getLogger(__name__)
_PRIVATE_FILE: Final = 0o600
_PRIVATE_FOLDER: Final = 0o700
# Between the name of a batch and the id of a request, where the vendor has no other place for the former.
MARK: Final = "-"


class State(StrEnum):
    """The last known state of a batch; ``-ing`` is an intention."""

    PREPARED = "prepared"
    UPLOADING = "uploading"
    UPLOADED = "uploaded"
    SUBMITTING = "submitting"
    SUBMITTED = "submitted"
    CANCELLING = "cancelling"
    COLLECTED = "collected"
    ABSENT = "absent"

    @property
    def open(self) -> bool:
        """Whether the vendor has it, or may have it."""
        return self in (State.SUBMITTING, State.SUBMITTED, State.CANCELLING)


@dataclass(slots=True, eq=False)
class Wave:
    """One batch: the ids of its requests, and all known facts about it."""

    nonce: str
    ids: list[str]
    state: State = State.PREPARED
    # When it came to be in its state; when it was to be submitted.
    at: float = 0.0
    sent_at: float = 0.0
    # The same by the clock of this process, which is never set back.
    began: float = field(default_factory=time.monotonic)
    batch: str = ""
    end: str = ""
    # Whether we meant to ask for its end; when this session did so, and whether because of its deadline.
    cancelled: bool = False
    asked_at: float = 0.0
    overdue: bool = False
    looked: bool = False
    # The digest of its results as they were collected; whether the file differs from it.
    sha256: str = ""
    changed: bool = False
    error: BaseException | None = None
    # Where its results stand in their file.
    offsets: dict[str, int] = field(default_factory=dict)
    # How many results the vendor has more than the file.
    lost: int = 0


class BatchLedger:
    """The journal of a service's batches, and their results, in one folder. One writer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(_PRIVATE_FOLDER)
        self._journal = Journal(folder / NAME, mode=_PRIVATE_FILE)
        self.waves = read_waves(self._journal.path)
        for wave in self.waves.values():
            if wave.state is State.COLLECTED:
                self._take_up(wave)

    def note(self, wave: Wave, state: State, **facts: Any) -> None:
        """Record the state of a batch on disk before anything else happens with it."""
        record = {"kind": state, "wave": wave.nonce, "at": time.time(), **facts}
        self._journal.append(record)
        self._journal.sync()
        self.waves[wave.nonce] = wave
        _apply(wave, record)

    async def store(self, wave: Wave, parts: AsyncIterator[bytes]) -> None:
        """Store a download of a batch's results, unless an earlier download of this session has more of them.

        ``wave.offsets`` then has the results that can be read.
        """
        path = self._results(wave)
        part = path.with_suffix(".part")
        # A killed session may have left an incomplete file.
        part.unlink(missing_ok=True)
        digest = hashlib.sha256()
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as file:
            async for data in parts:
                file.write(data)
                digest.update(data)
            file.flush()
            os.fsync(file.fileno())
        offsets = _offsets(part)
        if wave.offsets and len(offsets) <= len(wave.offsets):
            part.unlink()
            return
        part.replace(path)
        wave.offsets = offsets
        wave.sha256 = digest.hexdigest()

    def collected(self, wave: Wave, end: str, lost: int) -> None:
        """Record that the stored results of a batch are all that nel gets.

        Args:
            wave: The batch.
            end: How it ended.
            lost: How many results the vendor has more than the stored file.
        """
        self.note(
            wave,
            State.COLLECTED,
            end=end,
            results=len(wave.offsets),
            lost=lost,
            sha256=wave.sha256,
        )

    def line(self, wave: Wave, custom_id: str) -> JsonDict | None:
        """Return the result of one request; None if the vendor returned none."""
        offset = wave.offsets.get(custom_id)
        if offset is None:
            return None
        with self._results(wave).open("rb") as file:
            file.seek(offset)
            row: JsonDict = orjson.loads(file.readline())
        return row

    def close(self) -> None:
        """Close the file."""
        self._journal.close()

    def _results(self, wave: Wave) -> Path:
        return self._folder / f"results-{wave.nonce}.jsonl"

    def _take_up(self, wave: Wave) -> None:
        """Read the results that an earlier session collected, if they are still what the vendor sent."""
        path = self._results(wave)
        if wave.sha256 and path.is_file() and file_sha256(path) == wave.sha256:
            path.chmod(_PRIVATE_FILE)
            wave.offsets = _offsets(path)
            return
        log.warning(
            "%s is not what batch %s returned: it was changed, or is of an older version; nel collects the batch again",
            path,
            wave.batch,
        )
        wave.state = State.SUBMITTED
        wave.changed = True


def _offsets(path: Path) -> dict[str, int]:
    """Where the results of each request begin in a file of results."""
    offsets: dict[str, int] = {}
    offset = 0
    with path.open("rb") as file:
        for line in file:
            custom_id = custom_id_of(line)
            if custom_id is not None:
                offsets[custom_id.rpartition(MARK)[2]] = offset
            offset += len(line)
    return offsets


def custom_id_of(line: bytes) -> str | None:
    """Return the id of the request of a line of results; None if the line has none or cannot be parsed."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    custom_id = row.get("custom_id") if isinstance(row, dict) else None
    return custom_id if isinstance(custom_id, str) else None


def read_waves(path: Path) -> dict[str, Wave]:
    """Read the batches in a ledger.

    Raises:
        UsageError: A line of it is damaged.
    """
    waves: dict[str, Wave] = {}

    def damaged(damage: Damage) -> None:
        hint = "it may be the only record of a running batch: check the vendor's page, then remove the line"
        raise UsageError(f"{damage}", hint=hint)

    for _, record in scan_records(path, damaged):
        wave = waves.setdefault(record["wave"], Wave(record["wave"], record.get("ids", [])))
        _apply(wave, record)
    return waves


def open_batches(folder: Path) -> list[str]:
    """Describe the batches of a benchmark that were not collected yet; ``folder`` has a ledger per service."""
    texts: list[str] = []
    for path in sorted(folder.glob(f"*/{NAME}")):
        for wave in read_waves(path).values():
            if wave.state.open:
                batch = wave.batch or "a batch"
                size = counted(len(wave.ids), "request")
                hours = max(0.0, time.time() - wave.at) / 3600
                state = f"{wave.state} {hours:.1f} h ago, not collected"
                texts.append(f"{batch} of {path.parent.name} ({size}): {state}")
    return texts


def _apply(wave: Wave, record: JsonDict) -> None:
    """Update a batch with one record of the ledger."""
    wave.state = State(record["kind"])
    wave.at = record["at"]
    if wave.state is State.SUBMITTING:
        wave.sent_at = wave.at
        wave.began = time.monotonic() - max(0.0, time.time() - wave.at)
    wave.cancelled = wave.cancelled or wave.state is State.CANCELLING
    wave.batch = record.get("batch", wave.batch)
    wave.end = record.get("end", wave.end)
    if wave.state is State.COLLECTED:
        wave.sha256 = str(record.get("sha256", ""))
        wave.lost = int(record.get("lost", 0))
        wave.changed = False
