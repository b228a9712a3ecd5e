"""What built-in benchmarks declare: dataset, prompt, examples and what their pages say, in ``declared/MODULE.yaml``."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
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


@cache
def declared(name: str) -> JsonDict:
    """What the file of a benchmark says; ``own`` is for its own code (parts, texts for a judge)."""
    text = (_FOLDER / f"{MODULES[name]}.yaml").read_text(encoding="utf-8")
    declarations: dict[str, JsonDict] = yaml.load(text, _LOADER)  # noqa: S506 - safe
    return declarations[name]


def builtin(name: str, **code: Any) -> Callable[[F], F]:
    """``@benchmark`` with what the benchmark's file declares; ``code`` are its functions and what they compute. Keys of
    ``BenchmarkInfo`` are told to people; so are ``params``, whose defaults are code, and ``scoring``, which says how a
    scorer without a docstring judges."""
    said = {key: value for key, value in declared(name).items() if key != "own"}
    about = {key: said.pop(key) for key in _ABOUT if key in said}
    about = {
        key: tuple(value) if isinstance(value, list) else value for key, value in about.items()
    }
    about["published"] = Published(**about["published"])
    scoring = said.pop("scoring", None)
    register = benchmark(name, **said, **code, info=BenchmarkInfo(**about))

    def decorate(function: F) -> F:
        function.__doc__ = function.__doc__ or scoring
        return register(function)

    return decorate
