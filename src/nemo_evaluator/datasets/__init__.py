"""Datasets: a URI becomes rows that are read when they are asked for (hub, files, mirror, revision lock)."""

from nemo_evaluator.datasets.base import ChainedRows, ListRows, MappedRows, PickedRows, Rows
from nemo_evaluator.datasets.open import Opened, as_rows, open_rows, recording
from nemo_evaluator.datasets.ref import DatasetRef
from nemo_evaluator.datasets.settings import DataSettings, configure

__all__ = [
    "ChainedRows",
    "DataSettings",
    "DatasetRef",
    "ListRows",
    "MappedRows",
    "Opened",
    "PickedRows",
    "Rows",
    "as_rows",
    "configure",
    "open_rows",
    "recording",
]
