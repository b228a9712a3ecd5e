"""The heavy libraries of this room, imported where they are used and nowhere else."""

from types import ModuleType
from typing import cast

from nemo_evaluator.core.errors import MissingExtraError


def hub_library() -> ModuleType:
    """The ``datasets`` library."""
    try:
        import datasets  # noqa: PLC0415 - takes over a second to import
    except ImportError as error:
        raise MissingExtraError("the datasets library", extra="all") from error
    return cast(ModuleType, datasets)


def hub_client() -> ModuleType:
    """The ``huggingface_hub`` library."""
    import huggingface_hub  # noqa: PLC0415 - comes with datasets

    return huggingface_hub


def parquet_library() -> ModuleType:
    """``pyarrow.parquet``."""
    try:
        import pyarrow.parquet  # noqa: PLC0415 - takes a quarter of a second to import
    except ImportError as error:
        raise MissingExtraError("pyarrow", extra="all") from error
    return cast(ModuleType, pyarrow.parquet)
