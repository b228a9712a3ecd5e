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

    def metrics(self, parts: Sequence[str] = ()) -> dict[str, float]:
        """Return every number worth plotting, by its name.

        Args:
            parts: Texts of which one must occur in the name of a metric; empty for all metrics.

        These are scores with their confidence bounds, coverage, the shares of truncated and unparsed answers, and
        runtime numbers. Numbers that the bundle does not have are left out.
        """
        values: dict[str, float | None] = {}
        for score in self.scores:
            values[score.name] = score.value
            values[f"{score.name}/ci_lower"] = score.ci_lower
            values[f"{score.name}/ci_upper"] = score.ci_upper
        values["coverage"] = self.coverage.share
        values["truncated_share"] = self.truncated_share
        values["unparsed_share"] = self.unparsed_share
        runtime = self.runtime
        values["runtime/total_tokens"] = runtime.total_tokens
        values["runtime/tokens_per_second"] = runtime.tokens_per_second
        values["runtime/steps_per_second"] = runtime.steps_per_second
        values["runtime/elapsed_seconds"] = runtime.elapsed_seconds
        values["runtime/latency_p50_ms"] = runtime.p50_ms
        values["runtime/latency_p90_ms"] = runtime.p90_ms
        values["runtime/latency_p99_ms"] = runtime.p99_ms
        numbers: dict[str, float] = {}
        for name, value in values.items():
            is_wanted = not parts or any(part in name for part in parts)
            if value is not None and is_wanted:
                numbers[name] = float(value)
        return numbers

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
    schema = EXPORTERS.schema(name)
    setting_names = list(schema.model_fields)
    unknown_names = [key for key in settings if key not in setting_names]
    accepts_any = schema.model_config.get("extra") == "allow"
    if unknown_names and not accepts_any:
        hint = did_you_mean(unknown_names[0], setting_names)
        raise UsageError(f"exporter {name!r} has no setting {unknown_names[0]!r}", hint=hint)
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
    folder = bundles[0].run_dir if output_dir is None else Path(output_dir)
    export_config: JsonDict = {"output_dir": str(folder)}
    try:
        # In a thread of its own: tracker libraries start event loops, which is not allowed in a thread that runs one.
        with ThreadPoolExecutor(1, thread_name_prefix="export") as thread:
            export = thread.submit(exporter.export, bundles, export_config)
            return export.result()
    except NelError:
        raise
    except Exception as error:
        # Any error of a tracker's library becomes a failed export, not a traceback at the end of a paid run.
        raise ExportError(scrub(f"{type(error).__name__}: {error}")) from error
