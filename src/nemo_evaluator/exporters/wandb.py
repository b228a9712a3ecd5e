"""``wandb``: one Weights & Biases run for all bundles, online or offline."""

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, get_args

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.files import safe_name
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.exporters.base import ExportBundle, require

Mode = Literal["online", "offline", "disabled"]
# Do not send facts about this machine or the command line, which may contain keys.
_SETTINGS: Final = {
    "silent": True,
    "login_timeout": 15,
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}
_COLUMNS = [
    "benchmark",
    "model",
    "samples",
    "metric",
    "value",
    "ci_lower",
    "ci_upper",
    "coverage",
    "status",
]


@dataclass
class WandbExporter:
    """Logs ``<benchmark>/<metric>`` of every bundle, a table of all metrics, and the bundle files as an artifact.

    The id of the W&B run is derived from the nel runs of the bundles, so a repeated export updates the same W&B run.

    Attributes:
        project: The W&B project.
        entity: The W&B user or team; None for the default.
        tags: The tags of the W&B run.
        name: The name of the W&B run; None for a generated one.
        group: The group of the W&B run.
        mode: W&B's mode; None for ``WANDB_MODE``, or ``online``. ``offline`` writes below the output directory, for
            ``wandb sync``.
        artifacts: Whether to upload the bundle files.
        log_metrics: Texts of which one must occur in the name of a metric; empty for all metrics.
    """

    project: str = "nemo-evaluator"
    entity: str | None = None
    tags: Sequence[str] = ()
    name: str | None = None
    group: str | None = None
    mode: Mode | None = None
    artifacts: bool = True
    log_metrics: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the mode.

        Raises:
            UsageError: The mode is unknown.
            MissingExtraError: W&B is not installed.
        """
        if self.mode not in (None, *get_args(Mode)):
            raise UsageError(
                f"wandb has no mode {self.mode!r}", hint="use online, offline or disabled"
            )
        require("wandb")
        self._mode = self.mode or os.environ.get("WANDB_MODE") or "online"

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        """Log all bundles to one W&B run.

        Args:
            bundles: The finished benchmarks.
            config: ``output_dir`` is the folder for W&B's files.

        Returns:
            The URL of the W&B run, or its folder when it is not online.
        """
        wandb = import_module("wandb")
        folder = Path(config["output_dir"])
        bundles_by_label = dict(zip(_labels(bundles), bundles, strict=True))
        identity = digest(sorted(bundle.origin or bundle.run_id for bundle in bundles))[:16]
        if self._mode == "offline":
            _remove_unsynced(folder, identity)
        run_config: JsonDict = {}
        for label, bundle in bundles_by_label.items():
            run_config[label] = {"run_id": bundle.run_id, **bundle.config}
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            tags=list(self.tags) or None,
            name=self.name,
            group=self.group,
            id=identity,
            # Only a server can resume a run; offline runs are new folders that `wandb sync` joins by id.
            resume="allow" if self._mode == "online" else None,
            mode=self._mode,
            dir=str(folder),
            config=run_config,
            settings=wandb.Settings(**_SETTINGS),
        )
        try:
            self._log(run, bundles_by_label, identity)
            if self._mode == "online":
                destination = str(run.url)
            else:
                destination = str(Path(run.dir).parent)
        finally:
            run.finish()
        return [destination]

    def _log(self, run: Any, bundles_by_label: Mapping[str, ExportBundle], identity: str) -> None:
        """Log the metrics, their table and the files to an open W&B run."""
        values: JsonDict = {}
        for label, bundle in bundles_by_label.items():
            for name, value in bundle.metrics(self.log_metrics).items():
                values[f"{label}/{name}"] = value
        table = import_module("wandb").Table(
            columns=_COLUMNS, data=_table(list(bundles_by_label.values()))
        )
        values["results"] = table
        if run.resumed:
            # It has its single step already: replace the numbers in the summary.
            run.summary.update(values)
        else:
            run.log(values)
        if self.artifacts:
            run.log_artifact(_artifact(bundles_by_label, identity))


def _remove_unsynced(folder: Path, identity: str) -> None:
    """Remove earlier offline exports of the same bundles that were never synced, so that one run remains."""
    for old_folder in (folder / "wandb").glob(f"offline-run-*-{identity}"):
        if not list(old_folder.glob("*.synced")):
            shutil.rmtree(old_folder)


def _labels(bundles: Sequence[ExportBundle]) -> list[str]:
    """Return a unique prefix for each bundle.

    The prefix is the benchmark; with the model when two bundles have the same benchmark; with a number when both are
    equal.
    """
    names = Counter(bundle.name for bundle in bundles)
    labels: list[str] = []
    for bundle in bundles:
        if names[bundle.name] == 1:
            labels.append(bundle.name)
        else:
            labels.append(f"{bundle.name}@{bundle.model}")
    label_counts = Counter(labels)
    unique_labels: list[str] = []
    for number, label in enumerate(labels):
        if label_counts[label] == 1:
            unique_labels.append(label)
        else:
            unique_labels.append(f"{label}@{number}")
    return unique_labels


def _table(bundles: Sequence[ExportBundle]) -> list[list[Any]]:
    """Return one row per score of each bundle, in the order of ``_COLUMNS``."""
    table_rows: list[list[Any]] = []
    for bundle in bundles:
        for score in bundle.scores:
            table_rows.append(
                [
                    bundle.name,
                    bundle.model,
                    bundle.samples,
                    score.name,
                    score.value,
                    score.ci_lower,
                    score.ci_upper,
                    bundle.coverage.share,
                    bundle.status,
                ]
            )
    return table_rows


def _artifact(bundles: Mapping[str, ExportBundle], identity: str) -> Any:
    """Return an artifact with the bundle and the results of each benchmark."""
    artifact = import_module("wandb").Artifact(f"nel-{identity}", type="evaluation")
    for label, bundle in bundles.items():
        for path in (bundle.path, bundle.results):
            if path.is_file():
                artifact.add_file(str(path), name=f"{safe_name(label)}/{path.name}")
    return artifact


KIND: Final = WandbExporter
