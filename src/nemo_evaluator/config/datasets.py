"""Where datasets come from, and how strictly they must stay the same."""

from pydantic import Field

from nemo_evaluator.config.fields import Model


class DatasetsConfig(Model):
    """Sources of datasets."""

    mirror: str | None = Field(None, description="Folder of a dataset mirror; also `NEL_DATA_MIRROR`.")
    offline: bool = Field(False, description="Never reach for the network.")
    lock: str | None = Field(
        None,
        description="Lock file of revisions and hashes; null: nel-data.lock.json here if it exists, else in the cache.",
    )
    frozen: bool = Field(False, description="Refuse a dataset that differs from the lock.")
