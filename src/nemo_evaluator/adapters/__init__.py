"""The interceptor pipeline, the interceptors (one file each), and the proxy that puts the pipeline behind HTTP."""

from __future__ import annotations

from nemo_evaluator.core.lazy import lazy_names

_MODULES = {
    "base": ("Interceptor", "Place"),
    "in_process": ("Door", "open_client"),
    "pipeline": ("Pipeline",),
    "proxy": ("Proxy",),
    "registry": ("InterceptorRegistry", "build_stage", "interceptor_registry"),
    "traffic_log": ("TrafficLog",),
    "types": (
        "AdapterRequest",
        "AdapterResponse",
        "InterceptorContext",
        "RequestInterceptor",
        "RequestToResponseInterceptor",
        "ResponseInterceptor",
        "Stage",
    ),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
