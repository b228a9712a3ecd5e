"""What is left of a broken config when its wrong parts are taken out, so that the rest can be checked as well."""

import copy
import re
import warnings
from collections.abc import Iterable
from typing import Any, Final

from pydantic import ValidationError

from nemo_evaluator.config._document import Document, Path
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config._schema_walk import value_at
from nemo_evaluator.config.cross_check import cross_check
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.core.errors import Problem
from nemo_evaluator.core.json_coerce import as_dict

# In place of a service whose settings are wrong: benchmarks that name it can be opened all the same.
_SERVICE: Final = {"type": "api", "url": "http://127.0.0.1:9/v1/chat/completions", "model": "none"}
# What decides how benchmarks are opened: without it nothing is known.
_NEEDED: Final = ("cluster", "datasets", "benchmarks")
_ROUNDS: Final = 4
_KEY: Final = re.compile(r'"([^"]*)"|\[(\d+)\]|([^.\[\]"]+)')


def salvage(data: Any, problems: Iterable[Problem]) -> tuple[EvalConfig, list[int]] | None:
    """The rest of a config as a valid one, with the numbers that its benchmarks had; None when too little is left.

    First the values that are wrong are left out. Where that is not enough, what is around them is.
    """
    data = copy.deepcopy(data)
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return None
    numbers = list(range(len(data["benchmarks"])))
    for problem in problems:
        _leave_out(data, path_of(problem.path))
    for _ in range(_ROUNDS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return EvalConfig.model_validate(data), numbers
        except ValidationError as error:
            wrong = [path_of(one.path) for one in explain(error, Document(data), EvalConfig)]
        wrong += [one.path for one in cross_check(data)]
        dropped = {path[1] for path in wrong if not _replaced(data, path) and path[1:]}
        numbers = [number for place, number in enumerate(numbers) if place not in dropped]
        data["benchmarks"] = [one for place, one in enumerate(data["benchmarks"]) if place not in dropped]
    return None


def path_of(shown: str) -> Path:
    """The path that ``show_path`` has written."""
    found = _KEY.finditer(shown)
    return tuple(int(match[2]) if match[2] else match[1] if match[1] is not None else match[3] for match in found)


def _leave_out(data: Any, path: Path) -> None:
    around = value_at(data, path[:-1])
    if isinstance(around, dict) and path not in {(key,) for key in _NEEDED}:
        around.pop(path[-1], None)


def _replaced(data: dict[str, Any], path: Path) -> bool:
    """Take away the part around ``path``, or put something valid in its place; False for a benchmark: it has to go."""
    services = as_dict(data.get("services"))
    match path:
        case ("services", str(name), *_) if services:
            services[name] = dict(_SERVICE)
        case ("services", *_):
            data["services"] = {"model": dict(_SERVICE)}
        case ("benchmarks", int(place), "solver", *_) if services and isinstance(data["benchmarks"][place], dict):
            solver = {"type": "simple", "service": next(iter(services))}
            again = data["benchmarks"][place].get("solver") == solver
            data["benchmarks"][place]["solver"] = solver
            return not again
        case (str(key), *_) if key not in _NEEDED:
            data.pop(key, None)
        case _:
            return False
    return True
