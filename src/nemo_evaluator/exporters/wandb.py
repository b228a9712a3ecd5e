"""``wandb``: one Weights & Biases run for all bundles, online or offline."""

import os
import shutil
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
# What this machine is and how the command was called (with its keys, perhaps) is nobody's business.
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
    """Logs ``<benchmark>/<metric>`` of every bundle, a table of all metrics, and the bundles as an artifact. The id of
    the W&B run follows from the runs that the bundles are of, so exporting twice updates one run. ``mode`` is W&B's own
    setting (or ``WANDB_MODE``); ``offline`` writes below the output directory, for ``wandb sync`` later."""

    project: str = "nemo-evaluator"
    entity: str | None = None
    tags: Sequence[str] = ()
    name: str | None = None
    group: str | None = None
    mode: Mode | None = None
    artifacts: bool = True

    def __post_init__(self) -> None:
        if self.mode not in (None, *get_args(Mode)):
            raise UsageError(
                f"wandb has no mode {self.mode!r}", hint="use online, offline or disabled"
            )
        require("wandb")
        self._mode = self.mode or os.environ.get("WANDB_MODE") or "online"

    def export(self, bundles: Sequence[ExportBundle], config: JsonDict) -> list[str]:
        wandb = import_module("wandb")
        folder = Path(config["output_dir"])
        named = dict(zip(_labels(bundles), bundles, strict=True))
        identity = digest(sorted(bundle.origin or bundle.run_id for bundle in bundles))[:16]
        if self._mode == "offline":
            # Earlier runs of the same bundles that were never synced: there is one run, not one an export.
            for old in (folder / "wandb").glob(f"offline-run-*-{identity}"):
                if not list(old.glob("*.synced")):
                    shutil.rmtree(old)
        run = wandb.init(
            project=self.project,
            entity=self.entity,
            tags=list(self.tags) or None,
            name=self.name,
            group=self.group,
            id=identity,
            # Offline runs are new folders that `wandb sync` joins by id; only a server can be asked to resume.
            resume="allow" if self._mode == "online" else None,
            mode=self._mode,
            dir=str(folder),
            config={label: {"run_id": one.run_id, **one.config} for label, one in named.items()},
            settings=wandb.Settings(**_SETTINGS),
        )
        try:
            values = {
                f"{label}/{key}": number
                for label, one in named.items()
                for key, number in one.metrics().items()
            }
            values["results"] = wandb.Table(columns=_COLUMNS, data=_table(bundles))
            # A run that is there already has its one step: new numbers take the place of the old ones.
            (run.summary.update if run.resumed else run.log)(values)
            if self.artifacts:
                run.log_artifact(_artifact(named, identity))
            if self._mode == "online":
                place: Any | str = run.url
            else:
                place = str(Path(run.dir).parent)
        finally:
            run.finish()
        return [place]


def _labels(bundles: Sequence[ExportBundle]) -> list[str]:
    """A prefix for each bundle: the benchmark, with the model when two bundles have the same benchmark."""
    names = [bundle.name for bundle in bundles]
    both: list[str] = []
    for name, one in zip(names, bundles, strict=True):
        both.append(name if names.count(name) == 1 else f"{name}@{one.model}")
    return [label if both.count(label) == 1 else f"{label}@{at}" for at, label in enumerate(both)]


def _table(bundles: Sequence[ExportBundle]) -> list[list[Any]]:
    results: list[list[Any]] = []
    for one in bundles:
        for s in one.scores:
            results.append(
                [
                    one.name,
                    one.model,
                    one.samples,
                    s.name,
                    s.value,
                    s.ci_lower,
                    s.ci_upper,
                    one.coverage.share,
                    one.status,
                ]
            )
    return results


def _artifact(bundles: Mapping[str, ExportBundle], identity: str) -> Any:
    artifact = import_module("wandb").Artifact(f"nel-{identity}", type="evaluation")
    for label, bundle in bundles.items():
        for path in (bundle.path, bundle.results):
            if path.is_file():
                artifact.add_file(str(path), name=f"{safe_name(label)}/{path.name}")
    return artifact


KIND: Final = WandbExporter
