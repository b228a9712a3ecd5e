"""The name of a dataset on the hub: ``hf://owner/name?config=C&split=S&revision=R``."""

import re
from typing import Self
from urllib.parse import parse_qsl, unquote

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.values import dataclass, replace

_KEYS = ("config", "split", "revision", "file")
_SLICE = re.compile(r"^(?P<split>[^\[\]]+)\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\]$")
_REPO = re.compile(r"^[\w.-]+(/[\w.-]+)?$")


@dataclass(frozen=True, slots=True)
class DatasetRef:
    """A dataset, a config, a split, a revision; ``part`` is a slice such as ``:10`` or ``5%:``."""

    repo: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None
    part: str | None = None
    # A single data file of the repository, for datasets that keep one file per category.
    file: str | None = None

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse a dataset URI; ``hf://`` is optional. Raises UsageError for anything else."""
        name, _, query = uri.removeprefix("hf://").partition("?")
        repo = unquote(name).strip("/")
        if not _REPO.match(repo):
            hint = "write hf://owner/name?config=C&split=S, or the path of an existing file"
            raise UsageError(f"{uri!r} does not name a dataset", hint=hint)
        values = dict(parse_qsl(query, keep_blank_values=False))
        unknown = [key for key in values if key not in _KEYS]
        if unknown:
            raise UsageError(
                f"{uri!r}: unknown key {unknown[0]!r}", hint=did_you_mean(unknown[0], _KEYS)
            )
        split, part = _split_part(values.get("split", "test"))
        return cls(
            repo=repo,
            config=values.get("config"),
            split=split,
            revision=values.get("revision"),
            part=part,
            file=values.get("file"),
        )

    def with_split(self, split: str) -> Self:
        """The same dataset, another split."""
        name, part = _split_part(split)
        return replace(self, split=name, part=part)

    @property
    def key(self) -> str:
        """The identity in lock and messages: repo, config, split (no revision, no slice)."""
        config = f"config={self.config}&" if self.config else ""
        file = f"&file={self.file}" if self.file else ""
        return f"hf://{self.repo}?{config}split={self.split}{file}"

    def numbers(self, size: int) -> range:
        """The row numbers that ``part`` selects out of ``size``."""
        if self.part is None:
            return range(size)
        start, _, stop = self.part.partition(":")
        return range(size)[_bound(start, size) : _bound(stop, size)]


def _split_part(split: str) -> tuple[str, str | None]:
    """The name of a split, and its slice if it has one."""
    if "[" not in split:
        return split, None
    match = _SLICE.match(split)
    if match is None:
        raise UsageError(
            f"cannot read the split {split!r}", hint="write it as test, test[:100] or test[10%:20%]"
        )
    start = match["start"] or ""
    stop = match["stop"] or ""
    return match["split"], f"{start}:{stop}"


def _bound(text: str, size: int) -> int | None:
    """One end of a slice as a row number; None for the first or the last row."""
    if not text:
        return None
    if text.endswith("%"):
        return round(int(text[:-1]) * size / 100)
    return int(text)
