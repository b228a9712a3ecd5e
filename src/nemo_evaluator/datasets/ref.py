"""The name of a hub dataset: ``hf://owner/name?config=C&split=S&revision=R``."""

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
    """A reference to a split of a hub dataset.

    Attributes:
        repo: The repository, ``owner/name``.
        config: The config; None for the default.
        split: The split, without a slice.
        revision: The commit, branch or tag; None for the newest.
        part: A slice of the split, such as ``:10`` or ``5%:``.
        file: A data file of the repository.
    """

    repo: str
    config: str | None = None
    split: str = "test"
    revision: str | None = None
    part: str | None = None
    # For datasets that store one file per category.
    file: str | None = None

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Parse a dataset URI; ``hf://`` is optional.

        Raises:
            UsageError: It is not a dataset URI.
        """
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
        split, slice_text = _split_part(values.get("split", "test"))
        return cls(
            repo=repo,
            config=values.get("config"),
            split=split,
            revision=values.get("revision"),
            part=slice_text,
            file=values.get("file"),
        )

    def with_split(self, split: str) -> Self:
        """Return a reference to another split of the same dataset; ``split`` may have a slice."""
        name, part = _split_part(split)
        return replace(self, split=name, part=part)

    @property
    def key(self) -> str:
        """The identity in the lock and in messages: repository, config, split and file, without revision and slice."""
        config = f"config={self.config}&" if self.config else ""
        file = f"&file={self.file}" if self.file else ""
        return f"hf://{self.repo}?{config}split={self.split}{file}"

    def numbers(self, size: int) -> range:
        """Return the row numbers that ``part`` selects out of ``size`` rows."""
        if self.part is None:
            return range(size)
        start, _, stop = self.part.partition(":")
        return range(size)[_bound(start, size) : _bound(stop, size)]


def _split_part(split: str) -> tuple[str, str | None]:
    """Split ``name[start:stop]`` into the name of the split and the slice, which is None without brackets."""
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
    """Convert one end of a slice to a row number; None for an open end."""
    if not text:
        return None
    if text.endswith("%"):
        return round(int(text[:-1]) * size / 100)
    return int(text)
