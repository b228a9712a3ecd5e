"""The output of a run: folder, reports, exports, traffic log."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    field_validator,
    model_validator,
    with_config,
)
from pydantic_core import CoreSchema, PydanticCustomError
from typing_extensions import TypedDict

from nemo_evaluator.config.fields import Above0, LineName, Model, Name, Options, no_items
from nemo_evaluator.config.groups import EXPORTERS
from nemo_evaluator.config.kind_settings import check_settings
from nemo_evaluator.config.kinds import check_name

ReportFormat = Literal["markdown", "html", "csv", "json", "latex"]
_REPORTS: list[ReportFormat] = ["markdown"]


class TrajectoriesConfig(Model):
    """What is written about trajectories."""

    enrich: bool | None = Field(
        None,
        description="Write `trajectories_enriched.jsonl`; null does so where traffic is kept, true keeps it.",
    )


@with_config(ConfigDict(extra="allow"))
class ExportBlock(TypedDict):
    """An exporter written as a mapping; all keys but ``type`` are its settings."""

    type: str


def _listed(value: Any) -> Any:
    if isinstance(value, str | dict):
        return [value]
    return value


def _known(name: str) -> str:
    check_name(EXPORTERS, name)
    return name


_Exporter = Annotated[Name, AfterValidator(_known)]
_Exports = Name | ExportBlock | list[Name | ExportBlock]


class OutputConfig(Model):
    """The output of a run."""

    dir: LineName = Field("./eval_results", description="Folder of the run.")
    timestamped: bool = Field(
        False,
        description="Only `false` is supported: the run is in `dir`, an earlier one in `previous/`.",
    )
    progress_interval: Above0 = Field(
        60.0, description="Seconds between progress lines when not on a terminal."
    )
    report: Annotated[
        list[ReportFormat],
        BeforeValidator(_listed, json_schema_input_type=ReportFormat | list[ReportFormat]),
    ] = Field(default_factory=lambda: [*_REPORTS], description="Report formats written at the end.")
    export: Annotated[
        list[_Exporter], BeforeValidator(_listed, json_schema_input_type=_Exports)
    ] = Field(
        default_factory=no_items,
        description="Exporters: names, or mappings with `type` and settings.",
    )
    export_config: dict[str, Options] = Field(
        default_factory=dict, description="Settings by exporter name."
    )
    strict_export: bool = Field(False, description="Fail the run if an export fails.")
    rows: Literal["lean", "full"] = Field(
        "lean",
        description="`full` rows of `results.jsonl` also hold the trajectory and the columns of the prompt.",
    )
    traffic: Literal["none", "metadata", "bodies"] = Field(
        "none", description="What `model_traffic.jsonl` keeps."
    )
    trajectories: TrajectoriesConfig = Field(
        default_factory=TrajectoriesConfig, description="Trajectory files."
    )

    @field_validator("timestamped")
    @classmethod
    def _in_its_folder(cls, value: bool) -> bool:
        if value:
            text = "timestamped folders are not supported: --resume continues in `dir`; for another run set another dir"
            raise PydanticCustomError("timestamped", text)
        return value

    @model_validator(mode="before")
    @classmethod
    def _fold_export(cls, data: Any) -> Any:
        """Exports written as mappings become a name and an entry of ``export_config``."""
        if not isinstance(data, dict):
            return data
        exports = _listed(data.get("export"))
        if not isinstance(exports, list) or not any(isinstance(entry, dict) for entry in exports):
            return data
        settings = dict(data.get("export_config") or {})
        names = list(exports)
        for number, entry in enumerate(exports):
            if not isinstance(entry, dict) or not isinstance(entry.get("type"), str):
                continue
            name = entry["type"]
            names[number] = name
            own_settings = {key: value for key, value in entry.items() if key != "type"}
            if name in EXPORTERS:
                check_settings(EXPORTERS, name, own_settings, "export", number)
            if own_settings:
                if settings.get(name):
                    message = "export and export_config both have settings of {name}; keep one"
                    raise PydanticCustomError("given_twice", message, {"name": repr(name)})
                settings[name] = own_settings
        return {**data, "export": names, "export_config": settings}

    @model_validator(mode="after")
    def _keeps_what_it_enriches_from(self) -> Self:
        if not self.trajectories.enrich or self.traffic != "none":
            return self
        if "traffic" in self.model_fields_set:
            text = "trajectories.enrich needs the traffic: set traffic to metadata or bodies"
            raise PydanticCustomError("nothing_to_enrich_from", text)
        self.traffic = "bodies"
        return self

    @model_validator(mode="after")
    def _takes_settings(self) -> Self:
        for name, settings in self.export_config.items():
            if name in self.export:
                check_settings(EXPORTERS, name, settings, "export_config", name)
        unknown_exporters = [name for name in self.export_config if name not in self.export]
        if unknown_exporters:
            message = "export_config has settings for {names}, which export does not name"
            raise PydanticCustomError(
                "stray_export", message, {"names": ", ".join(map(repr, unknown_exporters))}
            )
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        json_schema = handler(schema)
        fields = handler.resolve_ref_schema(json_schema)["properties"]
        fields["export"]["examples"] = [EXPORTERS.names()]
        fields["export_config"]["properties"] = {
            name: handler(EXPORTERS.schema(name).__pydantic_core_schema__)
            for name in EXPORTERS.names()
        }
        return json_schema

    @property
    def enriched(self) -> bool:
        """Whether trajectories are written with the traffic that made them."""
        return self.traffic != "none" and self.trajectories.enrich is not False

    @property
    def exporters(self) -> dict[str, dict[str, Any]]:
        """Exporter names with their settings, in order."""
        return {name: dict(self.export_config.get(name, {})) for name in self.export}
