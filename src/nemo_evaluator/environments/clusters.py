"""Clusters: problems that belong together, such as the questions on one passage or the translations of one problem."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.values import dataclass

# Longer keys, such as a passage, are stored as their digest.
_LONGEST_LABEL: Final = 64
_DIGEST_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Independent:
    """The declaration that the problems of a benchmark do not belong together.

    Attributes:
        reason: Why, as a sentence without a full stop.
    """

    reason: str


# A column of the prepared row, a function of the row, or why there are no clusters; None when nothing is declared.
ClusterKey: TypeAlias = str | Callable[[Any], object] | Independent | None


def cluster_label(key: ClusterKey, columns: Mapping[str, Any]) -> str:
    """Return the cluster of a problem as a short text; empty if it is a cluster of its own.

    Args:
        key: What the benchmark declares, or its user.
        columns: The columns of the problem.
    """
    if key is None or isinstance(key, Independent):
        return ""
    value = columns.get(key) if isinstance(key, str) else key(columns)
    if value is None:
        return ""
    text = str(value)
    if len(text) <= _LONGEST_LABEL and text.isprintable():
        return text
    return digest_parts(text)[:_DIGEST_LENGTH]


def checked_column(name: object, available: list[str], benchmark: str) -> str:
    """Return the column that ``params: {cluster: ...}`` names.

    Args:
        name: The value of the parameter.
        available: The columns of the rows; empty if they are not known yet.
        benchmark: The name of the benchmark.

    Raises:
        UsageError: It is not the name of a column.
    """
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"{benchmark}: params.cluster is not the name of a column: {name!r}",
            hint="set it to a column that problems of one cluster share, such as passage_id",
        )
    if available and name not in available:
        raise UsageError(
            f"{benchmark}: the rows have no column {name!r} (params.cluster)",
            hint=did_you_mean(name, available, also=f"they have: {', '.join(available)}"),
        )
    return name
