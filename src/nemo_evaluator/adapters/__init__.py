"""The interceptor pipeline, the interceptors (one file each), and the proxy that puts the pipeline behind HTTP."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.adapters.base import Interceptor as Interceptor
    from nemo_evaluator.adapters.base import Place as Place
    from nemo_evaluator.adapters.in_process import ServicePipeline as ServicePipeline
    from nemo_evaluator.adapters.in_process import open_client as open_client
    from nemo_evaluator.adapters.pipeline import Pipeline as Pipeline
    from nemo_evaluator.adapters.proxy import Proxy as Proxy
    from nemo_evaluator.adapters.registry import InterceptorRegistry as InterceptorRegistry
    from nemo_evaluator.adapters.registry import build_stage as build_stage
    from nemo_evaluator.adapters.registry import interceptor_registry as interceptor_registry
    from nemo_evaluator.adapters.traffic import TrafficLog as TrafficLog
    from nemo_evaluator.adapters.types import AdapterRequest as AdapterRequest
    from nemo_evaluator.adapters.types import AdapterResponse as AdapterResponse
    from nemo_evaluator.adapters.types import InterceptorContext as InterceptorContext
    from nemo_evaluator.adapters.types import RequestInterceptor as RequestInterceptor
    from nemo_evaluator.adapters.types import (
        RequestToResponseInterceptor as RequestToResponseInterceptor,
    )
    from nemo_evaluator.adapters.types import ResponseInterceptor as ResponseInterceptor
    from nemo_evaluator.adapters.types import Stage as Stage

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "AdapterRequest": "nemo_evaluator.adapters.types",
        "AdapterResponse": "nemo_evaluator.adapters.types",
        "ServicePipeline": "nemo_evaluator.adapters.in_process",
        "Interceptor": "nemo_evaluator.adapters.base",
        "InterceptorContext": "nemo_evaluator.adapters.types",
        "InterceptorRegistry": "nemo_evaluator.adapters.registry",
        "Pipeline": "nemo_evaluator.adapters.pipeline",
        "Place": "nemo_evaluator.adapters.base",
        "Proxy": "nemo_evaluator.adapters.proxy",
        "RequestInterceptor": "nemo_evaluator.adapters.types",
        "RequestToResponseInterceptor": "nemo_evaluator.adapters.types",
        "ResponseInterceptor": "nemo_evaluator.adapters.types",
        "Stage": "nemo_evaluator.adapters.types",
        "TrafficLog": "nemo_evaluator.adapters.traffic",
        "build_stage": "nemo_evaluator.adapters.registry",
        "interceptor_registry": "nemo_evaluator.adapters.registry",
        "open_client": "nemo_evaluator.adapters.in_process",
    },
)
