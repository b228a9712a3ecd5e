"""Finds and reads the finished shards of a run, and checks that they belong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle, newest_bundle
from nemo_evaluator.runs.find import SHARD, task_folders
from nemo_evaluator.runs.sessions import sessions

if TYPE_CHECKING:
    from nemo_evaluator.store.bundle_document import StoppedEntry

# Settings that may differ between the shards of one run, such as the part or a free port.
_OWN: Final = frozenset({"shard", "shard_range", "resumed", "base_url", "rescored_from", "shuffle"})
_FINISH: Final = "finish that shard with --resume, then merge again"


@dataclass(frozen=True, slots=True)
class ShardPart:
    """The part of a plan that a shard ran.

    Attributes:
        index: The number of the shard, from 0.
        total: The number of shards.
        start: The position of its first problem in the plan.
        end: The position after its last problem.
    """

    index: int
    total: int
    start: int
    end: int


class ShardResult(Bundle):
    """One shard of one benchmark."""

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read the shard of a task folder.

        Raises:
            UsageError: If it has not ended.
        """
        bundle = newest_bundle(folder)
        if bundle is None:
            raise UsageError(f"{folder} has no bundle yet", hint=_FINISH)
        shard = cls(bundle.path, bundle.document)
        session_starts = [session.get("at") or 0.0 for session in sessions(shard.files.journal)]
        if max(session_starts, default=0.0) > shard.finished.timestamp():
            raise UsageError(
                f"{folder} was resumed after its bundle was written, and has not ended",
                hint=_FINISH,
            )
        return shard

    @property
    def folder(self) -> Path:
        """The shard's task folder."""
        return self.path.parent

    @property
    def finished(self) -> datetime:
        """When the shard ended."""
        return datetime.fromisoformat(self.timestamp).astimezone(UTC)

    @property
    def part(self) -> ShardPart | None:
        """Which part of the plan the shard ran; None for a run that is not a shard."""
        shard = self.config.get("shard")
        if shard is None:
            return None
        start, end = shard["range"]
        return ShardPart(index=shard["idx"], total=shard["total"], start=start, end=end)

    def settings(self) -> JsonDict:
        """Return the settings that must be equal in all shards of a run."""
        shuffle = self.config.get("shuffle") or {}
        dataset = {"shuffled": shuffle.get("applied"), "dataset size": shuffle.get("ds_full_size")}
        return {key: value for key, value in self.config.items() if key not in _OWN} | dataset


def find_shards(root: Path) -> dict[str, list[ShardResult]]:
    """Return the shards of every benchmark under ``root/shard_<number>/``, by number.

    Raises:
        UsageError: If there are none, or one has not ended.
    """
    tasks: dict[str, list[ShardResult]] = defaultdict(list)
    folders = [path for path in root.glob("shard_*") if SHARD.fullmatch(path.name)]
    for shard in sorted(folders, key=lambda path: int(path.name.partition("_")[2])):
        for folder in task_folders(shard):
            tasks[str(folder.relative_to(shard))].append(ShardResult.of(folder))
    if not tasks:
        hint = "shards are written by `nel eval run --shard I/N`"
        raise UsageError(f"there are no shard_*/ folders with results in {root}", hint=hint)
    return dict(sorted(tasks.items()))


def check_same(shards: Sequence[ShardResult]) -> None:
    """Check that all shards were run with the same settings.

    Raises:
        UsageError: If a setting differs; the message names it.
    """
    first = shards[0].settings()
    for shard in shards[1:]:
        settings = shard.settings()
        for key in dict.fromkeys([*first, *settings]):
            value = settings.get(key)
            first_value = first.get(key)
            if value == first_value:
                continue
            message = f"{shard.folder} was run with another {key} than {shards[0].folder}"
            if key == "fingerprints":
                differing_parts = _different_parts(first_value, value)
                message += f": its {' and '.join(differing_parts)} differ"
            else:
                message += f" ({_short(value)}, {_short(first_value)})"
            hint = "run all shards with the same config, or merge them apart"
            raise UsageError(message, hint=hint)


def _different_parts(first: JsonDict | None, other: JsonDict | None) -> list[str]:
    """Return the parts of fingerprints that differ."""
    other = other or {}
    return [part for part, value in (first or {}).items() if other.get(part) != value]


def missing_shards(shards: Sequence[ShardResult], selected: int) -> list[str]:
    """Return the parts of the plan that no shard covers: by number if all have the same total, else by problems."""
    parts: list[ShardPart] = []
    for shard in shards:
        if shard.part is None:
            return []
        parts.append(shard.part)
    totals = {part.total for part in parts}
    if len(totals) == 1:
        present_indices = {part.index for part in parts}
        missing_indices = set(range(totals.pop())) - present_indices
        return [str(index) for index in sorted(missing_indices)]
    missing_ranges = []
    covered = 0
    ranges = sorted((part.start, part.end) for part in parts)
    for start, end in [*ranges, (selected, selected)]:
        if start > covered:
            missing_ranges.append(f"problems {covered}-{start - 1} of the plan")
        covered = max(covered, end)
    return missing_ranges


def stopped(shards: Sequence[ShardResult]) -> StoppedEntry | None:
    """Return why shards ended early; None if none did."""
    stopped_shards: dict[str, JsonDict] = {}
    kinds: list[str] = []
    reasons: list[str] = []
    for shard in shards:
        facts = shard.stopped
        if not facts:
            continue
        name = shard.folder.parent.name
        stopped_shards[name] = facts
        if facts.get("kind"):
            kinds.append(facts["kind"])
        if facts.get("reason"):
            reasons.append(f"{name}: {facts['reason']}")
    if not stopped_shards:
        return None
    if not kinds:
        return {"shards": stopped_shards}
    return {"kind": kinds[0], "reason": "; ".join(reasons), "shards": stopped_shards}


def _short(value: object) -> str:
    text = str(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."
