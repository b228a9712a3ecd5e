"""Sandboxes: places where untrusted code runs."""

from nemo_evaluator.core.types import SandboxSpec
from nemo_evaluator.sandbox._backend import Backend, Job
from nemo_evaluator.sandbox._fresh import run_fresh, run_judge
from nemo_evaluator.sandbox.base import (
    ExecResult,
    Exit,
    ImageBuildRequest,
    ImageSpec,
    OutsideEndpoint,
    Sandbox,
    VolumeMount,
)

__all__ = [
    "Backend",
    "ExecResult",
    "Exit",
    "ImageBuildRequest",
    "ImageSpec",
    "Job",
    "OutsideEndpoint",
    "Sandbox",
    "SandboxSpec",
    "VolumeMount",
    "run_fresh",
    "run_judge",
]
