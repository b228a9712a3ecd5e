"""The interceptor pipeline, the interceptors (one file each), and the proxy that puts the pipeline behind HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nemo_evaluator.adapters.base import Interceptor, Place
    from nemo_evaluator.adapters.door import Door, open_client
    from nemo_evaluator.adapters.pipeline import Pipeline
    from nemo_evaluator.adapters.proxy import Proxy
    from nemo_evaluator.adapters.registry import build_stage, interceptor_registry
    from nemo_evaluator.adapters.traffic_log import TrafficLog

_HOMES = {
    "Door": "door",
    "Interceptor": "base",
    "Pipeline": "pipeline",
    "Place": "base",
    "Proxy": "proxy",
    "TrafficLog": "traffic_log",
    "build_stage": "registry",
    "interceptor_registry": "registry",
    "open_client": "door",
}

__all__ = [
    "Door",
    "Interceptor",
    "Pipeline",
    "Place",
    "Proxy",
    "TrafficLog",
    "build_stage",
    "interceptor_registry",
    "open_client",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
