"""Datasets: resolve a URI to rows that are read on request (hub, files, mirror, revision lock)."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.datasets.base import ChainedRows as ChainedRows
    from nemo_evaluator.datasets.base import ListRows as ListRows
    from nemo_evaluator.datasets.base import MappedRows as MappedRows
    from nemo_evaluator.datasets.base import PickedRows as PickedRows
    from nemo_evaluator.datasets.base import Rows as Rows
    from nemo_evaluator.datasets.mirror import Opened as Opened
    from nemo_evaluator.datasets.open import as_rows as as_rows
    from nemo_evaluator.datasets.open import open_rows as open_rows
    from nemo_evaluator.datasets.open import recording as recording
    from nemo_evaluator.datasets.ref import DatasetRef as DatasetRef
    from nemo_evaluator.datasets.settings import DataSettings as DataSettings
    from nemo_evaluator.datasets.settings import configure as configure

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ChainedRows": "nemo_evaluator.datasets.base",
        "DataSettings": "nemo_evaluator.datasets.settings",
        "DatasetRef": "nemo_evaluator.datasets.ref",
        "ListRows": "nemo_evaluator.datasets.base",
        "MappedRows": "nemo_evaluator.datasets.base",
        "Opened": "nemo_evaluator.datasets.mirror",
        "PickedRows": "nemo_evaluator.datasets.base",
        "Rows": "nemo_evaluator.datasets.base",
        "as_rows": "nemo_evaluator.datasets.open",
        "configure": "nemo_evaluator.datasets.settings",
        "open_rows": "nemo_evaluator.datasets.open",
        "recording": "nemo_evaluator.datasets.open",
    },
)
