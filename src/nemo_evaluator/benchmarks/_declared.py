"""What built-in benchmarks declare: dataset, prompt, examples and what their pages say, in ``declared/MODULE.yaml``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from nemo_evaluator.benchmarks import MODULES
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark

F = TypeVar("F", bound=Callable[..., Any])
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FOLDER: Final = Path(__file__).parent / "declared"
_ABOUT: Final = frozenset(field.name for field in fields(BenchmarkInfo))


def builtin(name: str, **code: Any) -> Callable[[F], F]:
    """``@benchmark`` with what the benchmark's file declares; ``code`` are its functions and what they compute.

    Keys of ``BenchmarkInfo`` are told to people; so is ``params`` in a file, whose defaults are code.
    """
    text = (_FOLDER / f"{MODULES[name]}.yaml").read_text(encoding="utf-8")
    declared: JsonDict = yaml.load(text, _LOADER)[name]  # noqa: S506 - a safe loader
    about: JsonDict = {key: _fixed(declared.pop(key)) for key in _ABOUT if key in declared}
    about["published"] = Published(**about["published"])
    return benchmark(name, **declared, **code, info=BenchmarkInfo(**about))


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
