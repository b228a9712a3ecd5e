"""Starting, checking and stopping services: one file per kind, one life cycle for all. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nemo_evaluator.core.registry import load_object

if TYPE_CHECKING:
    from nemo_evaluator.services.base import Launch, RunningService, ServiceKind
    from nemo_evaluator.services.kinds import KINDS
    from nemo_evaluator.services.runner import service_identity, start_services

__all__ = ["KINDS", "Launch", "RunningService", "ServiceKind", "service_identity", "start_services"]

_HOMES: Final = {
    "KINDS": "kinds",
    "Launch": "base",
    "RunningService": "base",
    "ServiceKind": "base",
    "service_identity": "runner",
    "start_services": "runner",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return load_object(f"{__name__}.{_HOMES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
