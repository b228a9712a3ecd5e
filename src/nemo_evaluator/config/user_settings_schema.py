"""The schema of the user's own defaults, which loads only if the user has some."""

from pydantic import Field

from nemo_evaluator.config.fields import Above0, LineName, Model, Positive
from nemo_evaluator.config.output import ReportFormat


class OutputSettings(Model):
    """Defaults of ``output``."""

    dir: LineName | None = Field(None, description="Folder of runs whose config names none.")
    report: list[ReportFormat] | None = Field(None, description="Report formats.")
    progress_interval: Above0 | None = Field(None, description="Seconds between progress lines.")


class DatasetSettings(Model):
    """Defaults of ``datasets``."""

    mirror: str | None = Field(None, description="Folder of a dataset mirror.")
    offline: bool | None = Field(None, description="Use no network.")


class BenchmarkSettings(Model):
    """Defaults of every benchmark."""

    max_concurrent: Positive | None = Field(None, description="Maximum concurrent steps.")
    timeout: Above0 | None = Field(None, description="Timeout of one step, in seconds.")


class UserSettings(Model):
    """Everything that can be kept."""

    output: OutputSettings = Field(
        default_factory=OutputSettings, description="Defaults of `output`."
    )
    datasets: DatasetSettings = Field(
        default_factory=DatasetSettings, description="Defaults of `datasets`."
    )
    defaults: BenchmarkSettings = Field(
        default_factory=BenchmarkSettings, description="Defaults of benchmarks."
    )
