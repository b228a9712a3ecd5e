"""The one door to the trackers' libraries: a missing one names its extra, and none is loaded before it is used."""

import importlib
import importlib.util
from typing import Any

from nemo_evaluator.core.errors import MissingExtraError

_EXTRAS = {"inspect_ai": "inspect", "mlflow": "export", "wandb": "export"}


def require(name: str) -> None:
    """Raise MissingExtraError unless the library is installed; does not load it."""
    if importlib.util.find_spec(name) is None:
        raise MissingExtraError(name, extra=_EXTRAS[name])


def load(name: str) -> Any:
    """A module of a tracker's library."""
    require(name.partition(".")[0])
    return importlib.import_module(name)
