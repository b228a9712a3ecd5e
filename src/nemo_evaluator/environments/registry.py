"""Resolve a benchmark's name to its environment: built-in names, ``file.py[:name]``, and URI schemes."""

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

# The parameter of every benchmark that names the column whose value problems of one cluster share.
_CLUSTER: Final = "cluster"
_BUILTIN: Final = "nemo_evaluator.benchmarks"
_DATASETS: Final = Path(__file__).parent / "data" / "harbor.json"

_environments: Registry[Any] = Registry("benchmark", group="nemo_evaluator.environments")
# The benchmarks that each file registered; two files may use the same name.
_files: dict[Path, dict[str, type[EvalEnvironment]]] = {}
# The same, by the module that registered them.
_by_module: dict[str, dict[str, type[EvalEnvironment]]] = {}
# The benchmarks registered so far by the files that are being imported, the innermost file last.
_registering: list[dict[str, type[EvalEnvironment]]] = []


def register(name: str) -> Callable[[E], E]:
    """Register the decorated environment class.

    Args:
        name: The benchmark's name, in any case. An existing benchmark of that name is shadowed, with a warning.
    """

    def decorate(environment: E) -> E:
        """Register the class by its name and by the modules that define it."""
        key = name.lower()
        function = getattr(getattr(environment, "definition", None), "function", None)
        modules = (environment.__module__, getattr(function, "__module__", "") or "")
        is_builtin = any(module.startswith(_BUILTIN) for module in modules)
        if not is_builtin and (_environments.knows(key) or key in builtin_names()):
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

    Args:
        name: A registered name, ``file.py[:name]`` or a URI such as ``lm-eval://boolq``.
        num_examples: The number of problems, from the first; None for all.
        num_fewshot: The number of few-shot examples; None for the benchmark's own number.
        params: The benchmark's own parameters.

    Raises:
        UsageError: The name, the scheme or a parameter is unknown.
    """
    name = as_uri(name)
    common_options: JsonDict = {}
    if num_examples is not None:
        common_options["num_examples"] = num_examples
    if num_fewshot is not None:
        common_options["num_fewshot"] = num_fewshot
    keywords: JsonDict = dict(params or {})
    if "://" in name:
        cluster = keywords.pop(_CLUSTER, None)
        opened = _open_uri(name, common_options | keywords)
        return _clustered(opened, cluster)
    environment = environment_class(name)
    accepted = inspect.signature(environment).parameters
    cluster = None
    if not _has_own_cluster(environment):
        cluster = keywords.pop(_CLUSTER, None)
    accepts_any_name = any(
        parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values()
    )
    for key in keywords:
        if not accepts_any_name and key not in accepted:
            own_parameters = sorted({*accepted} - {"num_examples", "num_fewshot"})
            accepted_text = ", ".join(own_parameters) or "none"
            message = f"benchmark {name!r} has no parameter {key!r}"
            raise UsageError(message, hint=f"accepted: {accepted_text}")
    for key, value in common_options.items():
        if accepts_any_name or key in accepted:
            keywords[key] = value
        elif value and key == "num_fewshot":
            raise UsageError(f"benchmark {name!r} has no few-shot examples", hint="remove fewshot")
    return _clustered(environment(**keywords), cluster)


def _has_own_cluster(environment: type[EvalEnvironment]) -> bool:
    """Return whether a benchmark has a parameter of its own with the name ``cluster``."""
    definition = getattr(environment, "definition", None)
    own_parameters = inspect.signature(environment).parameters
    return _CLUSTER in own_parameters or (definition is not None and _CLUSTER in definition.params)


def _clustered(environment: EvalEnvironment, cluster: object) -> EvalEnvironment:
    """Return the environment with the cluster that the user names; None if the user names none."""
    if cluster is not None:
        environment.cluster_by(cluster)
    return environment


def _open_uri(uri: str, keywords: JsonDict) -> EvalEnvironment:
    """Open the environment of a URI."""
    scheme = uri.partition("://")[0]
    if scheme not in SCHEMES:
        known_schemes = ", ".join(f"{known_scheme}://" for known_scheme in SCHEMES)
        hint = did_you_mean(scheme, SCHEMES.names(), f"known: {known_schemes}", form="{}://")
        raise UsageError(f"unknown scheme {scheme}:// in {uri!r}", hint=hint)
    environment: EvalEnvironment = SCHEMES.build(scheme, uri, **keywords)
    return environment


def as_uri(name: str) -> str:
    """Return the URI that a short name such as ``swebench-verified`` stands for; any other name as it is."""
    key = name.lower().replace("_", "-")
    if "." not in key and key in harbor_names():
        return f"harbor://{key}"
    return name


def harbor_names() -> dict[str, JsonDict]:
    """Return the Harbor datasets that have a short name, with their facts."""
    names: dict[str, JsonDict] = read_json(_DATASETS)
    return names


def environment_class(name: str) -> type[EvalEnvironment]:
    """Return the class of a registered benchmark, or of one in a file.

    Args:
        name: A registered name in any case, with ``-`` or ``_``; or ``file.py``, or ``file.py:name``.

    Raises:
        UsageError: No benchmark has that name.
    """
    if name.endswith(".py"):
        return _in_file(name, "")
    path, _, name_in_file = name.rpartition(":")
    if path.endswith(".py"):
        return _in_file(path, name_in_file)
    names = list_environments()
    key = name.lower()
    if key not in names:
        key = key.replace("-", "_")
    if key not in names:
        hint = did_you_mean(name, names, also="`nel list` shows all; your own is file.py[:name]")
        raise UsageError(f"unknown benchmark {name!r}", hint=hint)
    if not _environments.knows(key) and key in builtin_names():
        importlib.import_module(f"{_BUILTIN}.{key}")
    registered = _environments.get(key)
    # An entry point may name the decorated function.
    environment: type[EvalEnvironment] = getattr(registered, "environment", registered)
    return environment


def list_environments() -> list[str]:
    """Return the names of all registered benchmarks, including built-in ones."""
    return sorted({*builtin_names(), *_environments.names()})


def load_benchmark_file(path: str | Path) -> list[str]:
    """Import a benchmark file; a second call does not import it again.

    Returns:
        The names of the benchmarks that it registers.

    Raises:
        UsageError: The file raised an exception; the message has the line.
    """
    with LOADING:
        return _load_benchmark_file(find_file(path))


def _load_benchmark_file(file: Path) -> list[str]:
    """Import a benchmark file and return the names that it registers; raise UsageError if it fails."""
    if file in _files:
        return list(_files[file])
    registered: dict[str, type[EvalEnvironment]] = {}
    _registering.append(registered)
    try:
        module = load_file(file)
    except NelError:
        raise
    except Exception as error:
        error_line = _line_of(error, file)
        error_location = f"{file}:{error_line}" if error_line else str(file)
        raise UsageError(
            f"{error_location}: {type(error).__name__}: {error}",
            hint="fix the file; it is imported as it is",
        ) from error
    finally:
        _registering.pop()
    # The file may have been imported before, for a metric or an interceptor in it.
    all_registered = _by_module.get(module.__name__, {}) | registered
    _files[file] = all_registered
    return list(all_registered)


def _line_of(error: Exception, file: Path) -> int | None:
    """Return the last line of the file in the traceback; for a syntax error, its own line."""
    frame_lines = [
        frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(file)
    ]
    if frame_lines:
        return frame_lines[-1]
    return getattr(error, "lineno", None)


def builtin_names() -> frozenset[str]:
    """Return the names of the built-in benchmarks, without importing any."""
    # This package must not import the package of benchmarks, which is above it, so it loads it by name.
    names: frozenset[str] = importlib.import_module(_BUILTIN).builtin_names()
    return names


def _in_file(path: str, name: str) -> type[EvalEnvironment]:
    """Return the benchmark in a file: the given name, else the one named like the file, else the only one."""
    names = load_benchmark_file(path)
    key = (name or Path(path).stem.replace("-", "_")).lower()
    registered = _files[find_file(path)]
    if key in names:
        return registered[key]
    if name:
        raise UsageError(
            f"{path} has no benchmark {name!r}", hint=f"it has: {', '.join(names) or 'none'}"
        )
    if not names:
        raise UsageError(
            f"{path} defines no benchmark", hint="decorate a scorer with @benchmark(...)"
        )
    if len(names) > 1:
        choices = ", ".join(f"{path}:{choice}" for choice in names)
        raise UsageError(f"{path} has {len(names)} benchmarks", hint=f"name one: {choices}")
    return registered[names[0]]
