"""The exporters by name. Third parties add theirs by entry point."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nemo_evaluator.config.groups import EXPORTERS
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.exporters.base import Exporter, ExportError, read_bundle
from nemo_evaluator.runs.find import find_bundles


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
    folder = Path(output_dir) if output_dir is not None else bundles[0].path.parent.parent
    try:
        # In a thread of its own: libraries of trackers start event loops, which a thread that runs one does not allow.
        with ThreadPoolExecutor(1, thread_name_prefix="export") as thread:
            return thread.submit(exporter.export, bundles, {"output_dir": str(folder)}).result()
    except NelError:
        raise
    except Exception as error:
        # Whatever a tracker's library raises is one failed export, never a traceback at the end of a paid run.
        raise ExportError(scrub(f"{type(error).__name__}: {error}")) from error
