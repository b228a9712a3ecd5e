"""From a benchmark's name to its environment: built-in names, ``file.py[:name]``, and URI schemes."""

import importlib
import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Any, Final, TypeVar

from nemo_evaluator.config.groups import SCHEMES
from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.files import read_json
from nemo_evaluator.core.registry import LOADING, Registry, did_you_mean, find_file, load_file
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.base import EvalEnvironment

_log = logging.getLogger(__name__)
E = TypeVar("E", bound=type[EvalEnvironment])

_BUILTIN: Final = "nemo_evaluator.benchmarks"
_DATASETS: Final = Path(__file__).parent / "data" / "harbor.json"

_environments: Registry[Any] = Registry("benchmark", group="nemo_evaluator.environments")
# What each benchmark file registered: two files may use one name.
_files: dict[Path, dict[str, type[EvalEnvironment]]] = {}
# The same by the module that registered it.
_by_module: dict[str, dict[str, type[EvalEnvironment]]] = {}
_registering: list[dict[str, type[EvalEnvironment]]] = []


def register(name: str) -> Callable[[E], E]:
    """Register an environment class under a name (in any case); a taken name is shadowed, with a warning."""

    def decorate(environment: E) -> E:
        key = name.lower()
        function = getattr(getattr(environment, "definition", None), "function", None)
        modules = (environment.__module__, getattr(function, "__module__", "") or "")
        ours = any(module.startswith(_BUILTIN) for module in modules)
        if not ours and (_environments.knows(key) or key in builtin_names()):
            _log.warning("benchmark %r shadows another one of that name", name)
        _environments.add(key, environment, replace=True)
        if not environment.name:
            environment.name = name
        for registered in _registering:
            registered[key] = environment
        for module in modules:
            _by_module.setdefault(module, {})[key] = environment
        return environment

    return decorate


def get_environment(
    name: str,
    *,
    num_examples: int | None = None,
    num_fewshot: int | None = None,
    params: JsonDict | None = None,
) -> EvalEnvironment:
    """Open a benchmark.

    ``num_examples`` keeps the first rows only; ``num_fewshot`` puts worked examples before each problem; ``params``
    are the benchmark's own.
    """
    name = as_uri(name)
    scheme, separator, _ = name.partition("://")
    if separator:
        if scheme not in SCHEMES:
            known = f"known: {', '.join(f'{one}://' for one in SCHEMES)}"
            hint = did_you_mean(scheme, SCHEMES.names(), known, form="{}://")
            raise UsageError(f"unknown scheme {scheme}:// in {name!r}", hint=hint)
        given = {"num_examples": num_examples, "num_fewshot": num_fewshot}
        told = {key: value for key, value in given.items() if value is not None} | (params or {})
        opened: EvalEnvironment = SCHEMES.build(scheme, name, **told)
        return opened
    environment = environment_class(name)
    accepted = inspect.signature(environment).parameters
    any_name = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    keywords: JsonDict = dict(params or {})
    for key in keywords:
        if not any_name and key not in accepted:
            named = ", ".join(sorted({*accepted} - {"num_examples", "num_fewshot"})) or "none"
            raise UsageError(
                f"benchmark {name!r} has no parameter {key!r}", hint=f"accepted: {named}"
            )
    for key, value in (("num_examples", num_examples), ("num_fewshot", num_fewshot)):
        if value is not None and (any_name or key in accepted):
            keywords[key] = value
        elif value and key == "num_fewshot":
            raise UsageError(f"benchmark {name!r} has no few-shot examples", hint="remove fewshot")
    return environment(**keywords)


def as_uri(name: str) -> str:
    """The URI that a plain name stands for (``swebench-verified``: ``harbor://swebench-verified``), else the name."""
    key = name.lower().replace("_", "-")
    if "." not in key and key in harbor_names():
        return f"harbor://{key}"
    return name


def harbor_names() -> dict[str, JsonDict]:
    """Datasets of Harbor that have a plain name of their own, with what is known of them."""
    names: dict[str, JsonDict] = read_json(_DATASETS)
    return names


def environment_class(name: str) -> type[EvalEnvironment]:
    """The class of a registered benchmark, or of one in a file."""
    if name.endswith(".py"):
        path = name
        _ = ""
        wanted = ""
    else:
        path, _, wanted = name.rpartition(":")
    if path.endswith(".py"):
        return _in_file(path, wanted)
    known = list_environments()
    key = next(
        (key for key in (name.lower(), name.lower().replace("-", "_")) if key in known), None
    )
    if key is None:
        hint = did_you_mean(name, known, also="`nel list` shows all; your own is file.py[:name]")
        raise UsageError(f"unknown benchmark {name!r}", hint=hint)
    if not _environments.knows(key) and key in builtin_names():
        importlib.import_module(f"{_BUILTIN}.{key}")
    found = _environments.get(key)
    environment: type[EvalEnvironment] = getattr(found, "environment", found)
    return environment


def list_environments() -> list[str]:
    """The names of all registered benchmarks, built-in ones included."""
    return sorted({*builtin_names(), *_environments.names()})


def load_benchmark_file(path: str | Path) -> list[str]:
    """Import a benchmark file, once; returns the names it registers."""
    with LOADING:
        return _load_benchmark_file(find_file(path))


def _load_benchmark_file(file: Path) -> list[str]:
    if file in _files:
        return list(_files[file])
    registered: dict[str, type[EvalEnvironment]] = {}
    _registering.append(registered)
    try:
        module = load_file(file)
    except NelError:
        raise
    except Exception as error:
        lines: list[int | None] = []
        for frame in extract_tb(error.__traceback__):
            if frame.filename == str(file):
                lines.append(frame.lineno)
        if lines:
            line: int | Any | None = lines[-1]
        else:
            line = getattr(error, "lineno", None)
        said = f"{file}{f':{line}' if line else ''}: {type(error).__name__}: {error}"
        raise UsageError(said, hint="fix the file; it is imported as it is") from error
    finally:
        _registering.pop()
    # It may have been imported before, for a metric or an interceptor in it.
    _files[file] = _by_module.get(module.__name__, {}) | registered
    registered = _files[file]
    return list(registered)


def builtin_names() -> frozenset[str]:
    """The names of the built-in benchmarks, without importing one."""
    # The package is above this one in the order of imports, so it is found by its name.
    names: frozenset[str] = importlib.import_module(_BUILTIN).builtin_names()
    return names


def _in_file(path: str, wanted: str) -> type[EvalEnvironment]:
    names = load_benchmark_file(path)
    key = (wanted or Path(path).stem.replace("-", "_")).lower()
    if key not in names and wanted:
        raise UsageError(
            f"{path} has no benchmark {wanted!r}", hint=f"it has: {', '.join(names) or 'none'}"
        )
    if not names:
        raise UsageError(
            f"{path} defines no benchmark", hint="decorate a scorer with @benchmark(...)"
        )
    if key not in names and len(names) > 1:
        hint = f"name one: {', '.join(f'{path}:{n}' for n in names)}"
        raise UsageError(f"{path} has {len(names)} benchmarks", hint=hint)
    return _files[find_file(path)][key if key in names else names[0]]
