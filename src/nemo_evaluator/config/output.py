"""What a run leaves behind: folder, reports, exports, traffic log."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from nemo_evaluator.config._base import Above0, Model, Name, Options

ReportFormat = Literal["markdown", "html", "csv", "json", "latex"]
_REPORTS: list[ReportFormat] = ["markdown"]


class TrajectoriesConfig(Model):
    """What is written about trajectories."""

    enrich: bool = Field(True, description="Write `trajectories_enriched.jsonl`.")


class ExportTarget(Model):
    """An exporter and its settings."""

    model_config = ConfigDict(extra="allow")

    type: Name = Field(description="Name of the exporter; all other keys are its settings.")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


class OutputConfig(Model):
    """The output of a run."""

    dir: Name = Field("./eval_results", description="Folder of the run.")
    timestamped: bool = Field(True, description="On SLURM: append the run id to the folder.")
    progress_interval: Above0 = Field(60.0, description="Seconds between progress lines when not on a terminal.")
    report: Annotated[list[ReportFormat], BeforeValidator(_listed)] = Field(
        default_factory=_REPORTS.copy, description="Report formats written at the end."
    )
    export: Annotated[list[Name | ExportTarget], BeforeValidator(_listed)] = Field(
        default_factory=list, description="Exporters: names, or mappings with `type` and settings."
    )
    export_config: dict[str, Options] = Field(default_factory=dict, description="Settings by exporter name.")
    strict_export: bool = Field(False, description="A failing export fails the run.")
    traffic: Literal["none", "metadata", "bodies"] = Field("none", description="What `model_traffic.jsonl` keeps.")
    trajectories: TrajectoriesConfig = Field(default_factory=TrajectoriesConfig, description="Trajectory files.")

    @model_validator(mode="after")
    def _fold_export(self) -> OutputConfig:
        """Exports written as mappings become a name and an entry of ``export_config``."""
        names: list[str | ExportTarget] = []
        for target in self.export:
            if isinstance(target, str):
                names.append(target)
                continue
            settings = dict(target.model_extra or {})
            if settings and self.export_config.get(target.type):
                raise PydanticCustomError(
                    "given_twice",
                    "settings of {name} stand in export and in export_config; keep one",
                    {"name": repr(target.type)},
                )
            names.append(target.type)
            if settings:
                self.export_config = {**self.export_config, target.type: settings}
        stray = [name for name in self.export_config if name not in names]
        if stray:
            raise PydanticCustomError(
                "stray_export",
                "export_config has settings for {names}, which export does not name",
                {"names": ", ".join(map(repr, stray))},
            )
        self.export = names
        return self

    @property
    def exporters(self) -> dict[str, dict[str, Any]]:
        """Exporter names with their settings, in order."""
        return {str(name): dict(self.export_config.get(str(name), {})) for name in self.export}
