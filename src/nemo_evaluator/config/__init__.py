"""YAML to ``EvalConfig``: compose, override, expand, validate, snapshot. Names are loaded on first use.

``__init__.pyi`` beside this file gives type checkers the same names; a test keeps the two equal.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES: dict[str, tuple[str, ...]] = {
    "_document": ("Document",),
    "_service_base": (
        "ManagedService",
        "ModelService",
    ),
    "benchmarks": ("BenchmarkConfig",),
    "budgets": (
        "BudgetConfig",
        "StepLimits",
        "StopWhen",
    ),
    "clusters": (
        "ClusterConfig",
        "DockerCluster",
        "LocalCluster",
        "NodePool",
        "RayCluster",
        "SlurmCluster",
    ),
    "compose": ("compose_config",),
    "datasets": ("DatasetsConfig",),
    "eval_config": ("EvalConfig",),
    "gate_policy": (
        "BenchmarkPolicy",
        "GatePolicy",
        "PolicyDefaults",
        "default_policy",
        "load_gate_policy",
        "parse_gate_policy",
    ),
    "generation": ("GenerationConfig",),
    "json_schema": ("config_schema",),
    "load": (
        "LoadedConfig",
        "load_config",
        "load_mapping",
        "parse_eval_config",
    ),
    "output": (
        "OutputConfig",
        "TrajectoriesConfig",
    ),
    "playbooks": ("playbook_names",),
    "proxy": (
        "CacheConfig",
        "InterceptorConfig",
        "ModelTrafficConfig",
        "ProxyConfig",
    ),
    "quick": ("quick_config",),
    "sandboxes": (
        "ApptainerSandbox",
        "CustomSandbox",
        "DockerSandbox",
        "EcsFargateSandbox",
        "LocalSandbox",
        "NoSandbox",
        "SandboxConfig",
        "SlurmSandbox",
        "SshSidecar",
    ),
    "scoring": (
        "CustomMetric",
        "EnsembleJudgeMetric",
        "JudgeMetric",
        "MetricConfig",
        "PairwiseJudgeMetric",
        "RewardModelMetric",
        "SandboxMetric",
        "ScorerMetric",
        "ScoringConfig",
    ),
    "services": (
        "ApiService",
        "CustomService",
        "DockerModelService",
        "DynamoService",
        "DynamoWorkers",
        "GymService",
        "LlamaCppService",
        "NatService",
        "NimService",
        "ServiceConfig",
        "SglangService",
        "TrtLlmService",
        "VllmService",
    ),
    "snapshot": (
        "snapshot_text",
        "write_snapshot",
    ),
    "solvers": (
        "AgentSolverConfig",
        "ContainerSolverConfig",
        "CustomSolverConfig",
        "GymDelegationSolverConfig",
        "HarborSolverConfig",
        "McpServer",
        "NatSolverConfig",
        "OpenClawSolverConfig",
        "OracleSolverConfig",
        "SimpleSolverConfig",
        "SolverConfig",
        "ToolCallingSolverConfig",
    ),
    "support": (
        "RUNTIME",
        "RuntimeSupport",
        "check_runtime",
    ),
    "traffic": (
        "PriceConfig",
        "RetryConfig",
        "TimeoutsConfig",
    ),
    "user_settings": (
        "load_settings",
        "settings_path",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
