"""Reports that are also read as the mapping they are written as: ``report["verdict"]``."""

from collections.abc import Iterator, Mapping
from typing import Any

from nemo_evaluator.core.types import JsonDict


class Document(Mapping[str, Any]):
    """A report with attributes; as a mapping it is what ``to_dict`` gives."""

    __slots__ = ()

    def to_dict(self) -> JsonDict:
        """The report as JSON."""
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        return self.to_dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())
