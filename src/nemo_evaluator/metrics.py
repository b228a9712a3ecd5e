"""The statistics, under the name that users import: all of it is in ``nemo_evaluator.statistics``."""

from typing import Any

from nemo_evaluator import statistics

__all__ = statistics.__all__


def __getattr__(name: str) -> Any:
    return getattr(statistics, name)


def __dir__() -> list[str]:
    return dir(statistics)
