"""``local``: the metrics of all bundles as JSON or CSV files in a folder, as the launcher writes them."""

import csv
import io
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypedDict, get_args

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import dumps, safe_name, write_atomic
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters.base import ExportBundle
from nemo_evaluator.store.layout import LOG

FileFormat = Literal["json", "csv"]
# The folder in a run, and the launcher's name of the files.
_FOLDER: Final = "export"
_NAME: Final = "processed_results"


class ExportedBenchmark(TypedDict):
    """One benchmark in an exported file."""

    benchmark: str
    model: str
    run_id: str
    status: str
    metrics: dict[str, float]


@dataclass
class LocalExporter:
    """Writes one file per benchmark, and one for all benchmarks if there are several.

    Attributes:
        output_dir: The folder; None for ``export`` in the folder of the run.
        format: The format of the files.
        output_filename: The name of the files; None for ``processed_results.json`` or ``.csv``.
        log_metrics: Texts of which one must occur in the name of a metric; empty for all metrics.
        copy_artifacts: Whether to copy the bundle and the results of each benchmark, if the folder is not in the run.
        only_required: Whether to copy only these files, not the whole folder of the benchmark.
        copy_logs: Whether to copy the logs of the run.
    """

    output_dir: str | None = None
    format: FileFormat = "json"
    output_filename: str | None = None
    log_metrics: Sequence[str] = ()
    copy_artifacts: bool = False
    only_required: bool = True
    copy_logs: bool = False

    def __post_init__(self) -> None:
        """Check the format and the file name.

        Raises:
            UsageError: The format is unknown, or the name is a path.
        """
        if self.format not in get_args(FileFormat):
            raise UsageError(f"no files are written as {self.format!r}", hint="use json or csv")
        if self.output_filename and Path(self.output_filename).name != self.output_filename:
            hint = "give the folder as output_dir"
            raise UsageError(f"output_filename {self.output_filename!r} is a path", hint=hint)

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Write the files.

        Args:
            bundles: The finished benchmarks.
            config: ``output_dir`` is the folder of the run.

        Returns:
            The paths of the files.
        """
        if self.output_dir is None:
            root = Path(config["output_dir"]) / _FOLDER
        else:
            root = Path(self.output_dir).expanduser()
        name = self.output_filename or f"{_NAME}.{self.format}"
        documents: list[ExportedBenchmark] = []
        written: list[str] = []
        for bundle in bundles:
            folder = root / safe_name(bundle.run_id) / safe_name(bundle.name)
            folder.mkdir(parents=True, exist_ok=True)
            document = self._document(bundle)
            documents.append(document)
            written.append(self._write(folder / name, [document]))
            # A copy inside the run would count as another result of it.
            if self.copy_artifacts and not root.resolve().is_relative_to(bundle.run_dir.resolve()):
                self._copy_files(bundle, folder / "artifacts")
            if self.copy_logs:
                _copy_logs(bundle.run_dir, folder / "logs")
        if len(documents) > 1:
            written.append(self._write(root / name, documents))
        return written

    def _document(self, bundle: ExportBundle) -> ExportedBenchmark:
        """Return what the files say about one benchmark."""
        return {
            "benchmark": bundle.name,
            "model": str(bundle.config.get("model") or ""),
            "run_id": bundle.run_id,
            "status": bundle.status,
            "metrics": bundle.metrics(self.log_metrics),
        }

    def _write(self, path: Path, documents: Sequence[ExportedBenchmark]) -> str:
        """Write benchmarks to a file, and return its path."""
        if self.format == "csv":
            write_atomic(path, _csv_text(documents))
        else:
            write_atomic(path, dumps({"benchmarks": list(documents)}, indent=True) + b"\n")
        return str(path)

    def _copy_files(self, bundle: ExportBundle, target: Path) -> None:
        """Copy the files of a benchmark."""
        task_folder = bundle.path.parent
        if not self.only_required:
            shutil.copytree(task_folder, target, dirs_exist_ok=True)
            return
        target.mkdir(parents=True, exist_ok=True)
        for path in (bundle.path, bundle.results):
            if path.is_file():
                shutil.copy2(path, target)


def _csv_text(documents: Sequence[ExportedBenchmark]) -> str:
    """Render benchmarks as CSV: a line for each metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["benchmark", "model", "run_id", "status", "metric", "value"])
    for document in documents:
        facts = [document[key] for key in ("benchmark", "model", "run_id", "status")]
        for metric, value in document["metrics"].items():
            writer.writerow([*facts, metric, value])
    return text.getvalue()


def _copy_logs(run_folder: Path, target: Path) -> None:
    """Copy the log of a run, and those of its servers and jobs."""
    target.mkdir(parents=True, exist_ok=True)
    log = run_folder / LOG
    if log.is_file():
        shutil.copy2(log, target)
    server_logs = run_folder / "logs"
    if server_logs.is_dir():
        shutil.copytree(server_logs, target, dirs_exist_ok=True)


KIND: Final = LocalExporter
