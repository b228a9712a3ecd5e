"""The contract of an exporter: it sends finished runs to a tracker, and says where they went."""

import importlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from nemo_evaluator.core.errors import EXIT_FAILED, MissingExtraError, NelError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.row import Row
from nemo_evaluator.runs.row_file import with_trajectories

_EXTRAS: Final = {"inspect_ai": "inspect", "mlflow": "export", "wandb": "export"}


class ExportError(NelError):
    """An export did not happen, or only in part."""

    exit_code = EXIT_FAILED


class ExportBundle(Bundle):
    """One finished benchmark: its bundle, and the rows beside it with their conversations."""

    def metrics(self) -> dict[str, float]:
        """Every number worth plotting: scores with their bounds, coverage and shares, runtime."""
        found: dict[str, float | None] = {}
        for score in self.scores:
            bounds = {f"{score.name}/ci_lower": score.ci_lower, f"{score.name}/ci_upper": score.ci_upper}
            found |= {score.name: score.value} | bounds
        found["coverage"] = self.coverage.share
        found |= {"truncated_share": self.truncated_share, "unparsed_share": self.unparsed_share}
        for name in ("total_tokens", "tokens_per_second", "steps_per_second", "elapsed_seconds"):
            found[f"runtime/{name}"] = getattr(self.runtime, name)
        found |= {f"runtime/latency_{name}": getattr(self.runtime, name) for name in ("p50_ms", "p90_ms", "p99_ms")}
        return {name: float(value) for name, value in found.items() if value is not None}

    def rows(self) -> Iterator[Row]:
        """The rows, one at a time, each with its trajectory where one was kept."""
        return with_trajectories(super().rows(), self.files.trajectories)


def read_bundle(path: Path) -> ExportBundle:
    """A bundle file. Raises UsageError when it is none."""
    return ExportBundle(path, load_bundle(path).document)


@runtime_checkable
class Exporter(Protocol):
    """One call. Settings are the keywords of the constructor, which refuses those it does not know."""

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Send the bundles; ``config`` has ``output_dir``. Returns where they went. Raises when any did not go."""
        ...


def require(name: str) -> None:
    """Raise MissingExtraError unless the library is installed; does not load it."""
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(name, extra=_EXTRAS[name])


def load(name: str) -> Any:
    """A module of a tracker's library: none is loaded before it is used, and a missing one names its extra."""
    require(name.partition(".")[0])
    return importlib.import_module(name)
