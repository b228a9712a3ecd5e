"""The contract of an exporter, which sends finished runs to a tracker and returns where they went.

Third parties add exporters by entry point.
"""

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
    """An export failed, entirely or in part."""

    exit_code = EXIT_FAILED


class ExportBundle(Bundle):
    """The bundle of one finished benchmark, and its rows with their conversations."""

    def metrics(self) -> dict[str, float]:
        """Return every number worth plotting, by its name.

        These are scores with their confidence bounds, coverage, the shares of truncated and unparsed answers, and
        runtime numbers. Numbers that the bundle does not have are left out.
        """
        values: dict[str, float | None] = {}
        for score in self.scores:
            bounds = {
                f"{score.name}/ci_lower": score.ci_lower,
                f"{score.name}/ci_upper": score.ci_upper,
            }
            values |= {score.name: score.value} | bounds
        values["coverage"] = self.coverage.share
        values |= {"truncated_share": self.truncated_share, "unparsed_share": self.unparsed_share}
        for name in ("total_tokens", "tokens_per_second", "steps_per_second", "elapsed_seconds"):
            values[f"runtime/{name}"] = getattr(self.runtime, name)
        for name in ("p50_ms", "p90_ms", "p99_ms"):
            values[f"runtime/latency_{name}"] = getattr(self.runtime, name)
        return {name: float(value) for name, value in values.items() if value is not None}

    def rows(self) -> Iterator[Row]:
        """Iterate over the rows, each with its trajectory if one was stored."""
        return with_trajectories(super().rows(), self.files.trajectories)


def read_bundle(path: Path) -> ExportBundle:
    """Read a bundle file for export.

    Args:
        path: The bundle file.

    Raises:
        UsageError: The file is not a bundle.
    """
    return ExportBundle(path, load_bundle(path).document)


@runtime_checkable
class Exporter(Protocol):
    """An exporter: one method that sends bundles.

    Its settings are the keyword parameters of its constructor; unknown settings are rejected.
    """

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Send the bundles.

        Args:
            bundles: The finished benchmarks.
            config: The facts about the export; ``output_dir`` is the folder for files.

        Returns:
            Where the bundles went: paths, URLs or names of runs.

        Raises:
            NelError: A bundle could not be sent.
        """
        ...


def require(name: str) -> None:
    """Check that a tracker's library is installed, without importing it.

    Args:
        name: The name of the library.

    Raises:
        MissingExtraError: The library is not installed.
    """
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(name, extra=_EXTRAS[name])


def register_exporter(name: str, target: Callable[..., Exporter] | str) -> None:
    """Add an exporter.

    Args:
        name: The name that configs and the command line use.
        target: Its class, or ``"package.module:Name"``.
    """
    EXPORTERS.add(name, Kind(build=target))


def get_exporter(name: str, **settings: Any) -> Exporter:
    """Create the exporter called ``name``.

    Args:
        name: The exporter's name.
        **settings: Its settings.

    Raises:
        UsageError: The name or a setting is unknown.
        MissingExtraError: The tracker's library is not installed.
    """
    setting_names = list(EXPORTERS.schema(name).model_fields)
    unknown = [key for key in settings if key not in setting_names]
    if unknown and EXPORTERS.schema(name).model_config.get("extra") != "allow":
        hint = did_you_mean(unknown[0], setting_names)
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
    """Send every bundle under some paths to an exporter.

    Args:
        name: The exporter's name.
        paths: Bundle files, or folders that hold them.
        settings: The exporter's settings.
        output_dir: The folder for files; None for the folder of the first bundle's run.

    Returns:
        Where the bundles went.

    Raises:
        NelError: A bundle could not be sent. The caller decides whether that fails a run.
    """
    exporter = get_exporter(name, **(settings or {}))
    bundles = [read_bundle(path) for path in find_bundles(paths)]
    if output_dir is not None:
        folder = Path(output_dir)
    else:
        folder = bundles[0].path.parent.parent
    try:
        # In a thread of its own: tracker libraries start event loops, which is not allowed in a thread that runs one.
        with ThreadPoolExecutor(1, thread_name_prefix="export") as thread:
            return thread.submit(exporter.export, bundles, {"output_dir": str(folder)}).result()
    except NelError:
        raise
    except Exception as error:
        # Any error of a tracker's library becomes a failed export, not a traceback at the end of a paid run.
        raise ExportError(scrub(f"{type(error).__name__}: {error}")) from error
