"""The contract of an exporter: it sends finished runs to a tracker, and says where they went. Third parties add theirs
by entry point."""

import importlib.util
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

from nemo_evaluator.config.groups import EXPORTERS
from nemo_evaluator.core.errors import EXIT_FAILED, MissingExtraError, NelError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle, load_bundle
from nemo_evaluator.runs.find import find_bundles
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
            bounds = {
                f"{score.name}/ci_lower": score.ci_lower,
                f"{score.name}/ci_upper": score.ci_upper,
            }
            found |= {score.name: score.value} | bounds
        found["coverage"] = self.coverage.share
        found |= {"truncated_share": self.truncated_share, "unparsed_share": self.unparsed_share}
        for name in ("total_tokens", "tokens_per_second", "steps_per_second", "elapsed_seconds"):
            found[f"runtime/{name}"] = getattr(self.runtime, name)
        for name in ("p50_ms", "p90_ms", "p99_ms"):
            found[f"runtime/latency_{name}"] = getattr(self.runtime, name)
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
    """Raise MissingExtraError unless a tracker's library is installed. It is loaded when it is first used."""
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(name, extra=_EXTRAS[name])


def register_exporter(name: str, target: Callable[..., Exporter] | str) -> None:
    """Add an exporter: its class, or ``"package.module:Name"``."""
    EXPORTERS.add(name, Kind(build=target))


def get_exporter(name: str, **settings: Any) -> Exporter:
    """The exporter called ``name``. Raises a NelError for an unknown name, an unknown setting, or a missing library."""
    known = list(EXPORTERS.schema(name).model_fields)
    unknown = [key for key in settings if key not in known]
    if unknown and EXPORTERS.schema(name).model_config.get("extra") != "allow":
        hint = did_you_mean(unknown[0], known)
        raise UsageError(f"exporter {name!r} has no setting {unknown[0]!r}", hint=hint)
    exporter: Exporter = EXPORTERS.build(name, **settings)
    return exporter


def export_bundles(
    name: str,
    paths: Sequence[Path | str],
    settings: Mapping[str, Any] | None = None,
    *,
    output_dir: Path | str | None = None,
) -> list[str]:
    """Send every bundle under ``paths`` to the exporter called ``name``; returns where they went. Raises a NelError
    when anything did not go: the caller decides whether that fails a run."""
    exporter = get_exporter(name, **(settings or {}))
    bundles = [read_bundle(path) for path in find_bundles(paths)]
    if output_dir is not None:
        folder = Path(output_dir)
    else:
        folder = bundles[0].path.parent.parent
    try:
        # In a thread of its own: libraries of trackers start event loops, which a thread that runs one does not allow.
        with ThreadPoolExecutor(1, thread_name_prefix="export") as thread:
            return thread.submit(exporter.export, bundles, {"output_dir": str(folder)}).result()
    except NelError:
        raise
    except Exception as error:
        # Whatever a tracker's library raises is one failed export, never a traceback at the end of a paid run.
        raise ExportError(scrub(f"{type(error).__name__}: {error}")) from error
