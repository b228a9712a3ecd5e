"""The interceptors by name, and how a stage is built from its name and settings."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any, Final

from nemo_evaluator.adapters.base import Interceptor
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import Registry, load_object, nearest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.models.endpoint import StageSpec

_HERE: Final = "nemo_evaluator.adapters.interceptors"
_NAMES: Final = (
    "caching",
    "consolidate_system",
    "drop_params",
    "finish_reason",
    "http_pairs_dump",
    "log_tokens",
    "modify_tools",
    "payload_modifier",
    "progress_tracking",
    "raise_client_errors",
    "reasoning",
    "reasoning_replay",
    "response_stats",
    "streaming",
    "system_message",
    "turn_counter",
)

interceptor_registry: Registry[Any] = Registry("interceptor", group="nemo_evaluator.interceptors")
for _name in _NAMES:
    interceptor_registry.add(_name, f"{_HERE}.{_name}:Interceptor")
interceptor_registry.add("logging", f"{_HERE}.request_logging:Interceptor")
interceptor_registry.add("endpoint", f"{_HERE}.endpoint:Interceptor")


def build_stage(spec: StageSpec, base_dir: Path | None = None) -> Interceptor:
    """The stage of a spec: a registered name, ``module:Class``, or a Python file beside the config."""
    kind = _find(spec.name, base_dir)
    if not (isinstance(kind, type) and issubclass(kind, Interceptor)):
        raise UsageError(
            f"{spec.name!r} is not an interceptor", hint="derive the class from nemo_evaluator.adapters.Interceptor"
        )
    _check_settings(spec.name, kind, spec.config)
    return kind(**spec.config)


def _find(name: str, base_dir: Path | None) -> Any:
    file, _, attribute = name.partition(":")
    if file.endswith(".py"):
        return _from_file(file, attribute or "Interceptor", base_dir)
    if ":" in name:
        return load_object(name)
    return interceptor_registry.get(name)


def _from_file(file: str, attribute: str, base_dir: Path | None) -> Any:
    path = Path(file) if Path(file).is_absolute() else (base_dir or Path.cwd()) / file
    if not path.is_file():
        raise UsageError(f"no interceptor file {path}", hint="the path is relative to the folder of the config")
    module_name = f"nel_interceptor_{path.stem}_{abs(hash(path.resolve()))}"
    module = sys.modules.get(module_name)
    if module is None:
        found = importlib.util.spec_from_file_location(module_name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[module_name] = module
        found.loader.exec_module(module)
    if not hasattr(module, attribute):
        raise UsageError(f"{path} has no class {attribute!r}", hint=f"write it as {file}:ClassName")
    return getattr(module, attribute)


def _check_settings(name: str, kind: Any, config: JsonDict) -> None:
    """Every setting must be one the stage takes, and every one it needs must be there."""
    parameters = inspect.signature(kind).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    for key in config:
        if key not in parameters:
            close = nearest(key, list(parameters))
            hint = f"did you mean {close!r}?" if close else f"known: {', '.join(parameters) or 'none'}"
            raise UsageError(f"interceptor {name!r} has no setting {key!r}", hint=hint)
    missing = [p.name for p in parameters.values() if p.default is inspect.Parameter.empty and p.name not in config]
    if missing:
        raise UsageError(f"interceptor {name!r} needs the setting {missing[0]!r}")
