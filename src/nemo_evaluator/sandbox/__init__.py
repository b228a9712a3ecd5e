"""Sandboxes: places where untrusted code runs. Names load on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.core.types import SandboxSpec as SandboxSpec
    from nemo_evaluator.sandbox._backend import Backend as Backend
    from nemo_evaluator.sandbox._backend import BackendCommand as BackendCommand
    from nemo_evaluator.sandbox._backend import run_judge as run_judge
    from nemo_evaluator.sandbox.base import ExecResult as ExecResult
    from nemo_evaluator.sandbox.base import Exit as Exit
    from nemo_evaluator.sandbox.base import ImageBuildRequest as ImageBuildRequest
    from nemo_evaluator.sandbox.base import ImageSpec as ImageSpec
    from nemo_evaluator.sandbox.base import OutsideEndpoint as OutsideEndpoint
    from nemo_evaluator.sandbox.base import Sandbox as Sandbox
    from nemo_evaluator.sandbox.base import VolumeMount as VolumeMount

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Backend": "nemo_evaluator.sandbox._backend",
        "ExecResult": "nemo_evaluator.sandbox.base",
        "Exit": "nemo_evaluator.sandbox.base",
        "ImageBuildRequest": "nemo_evaluator.sandbox.base",
        "ImageSpec": "nemo_evaluator.sandbox.base",
        "BackendCommand": "nemo_evaluator.sandbox._backend",
        "OutsideEndpoint": "nemo_evaluator.sandbox.base",
        "Sandbox": "nemo_evaluator.sandbox.base",
        "SandboxSpec": "nemo_evaluator.core.types",
        "VolumeMount": "nemo_evaluator.sandbox.base",
        "run_judge": "nemo_evaluator.sandbox._backend",
    },
)
