"""Starting, checking and stopping services: one file per kind, one life cycle for all. Names load on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.services.base import Launch, RunningService, ServiceKind
    from nemo_evaluator.services.runner import service_identity, start_services

    __all__ = ["Launch", "RunningService", "ServiceKind", "service_identity", "start_services"]
else:
    _MODULES = {"base": ("Launch", "RunningService", "ServiceKind"), "runner": ("service_identity", "start_services")}
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
