"""YAML to ``EvalConfig``: compose, override, expand, validate, snapshot. Names are loaded on first use.

``__init__.pyi`` beside this file gives type checkers the same names; a test keeps the two equal.
"""

from __future__ import annotations

from nemo_evaluator.core.lazy import lazy_names

_MODULES = {
    "_document": ("Document",),
    "service_base": ("HelperService", "ManagedService", "ModelService", "ServiceBase", "ServiceConfig"),
    "solver_base": ("SolverBase", "SolverConfig"),
    "sandbox_base": ("ImageSandbox", "SandboxBase", "SandboxConfig"),
    "cluster_base": ("ClusterBase", "ClusterConfig"),
    "benchmarks": ("BenchmarkConfig",),
    "budgets": ("BudgetConfig", "StepLimits", "StopWhen"),
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
    "load": ("LoadedConfig", "load_config", "load_mapping", "parse_eval_config"),
    "output": ("OutputConfig", "TrajectoriesConfig"),
    "playbooks": ("playbook_names",),
    "proxy": ("CacheConfig", "InterceptorConfig", "ModelTrafficConfig", "ProxyConfig"),
    "scoring": ("MetricBase", "MetricConfig", "RubricMetric", "ScoringConfig"),
    "snapshot": ("SNAPSHOT", "snapshot_text", "write_snapshot"),
    "support": ("check_runtime",),
    "traffic": ("PriceConfig", "RetryConfig", "TimeoutsConfig"),
    "user_settings": ("load_settings", "settings_path"),
}
# The settings of the kinds, from the files of the kinds themselves: these rooms lie above this one.
_KINDS = {
    "nemo_evaluator.executors.docker": ("DockerCluster",),
    "nemo_evaluator.executors.local": ("LocalCluster",),
    "nemo_evaluator.executors.ray": ("RayCluster",),
    "nemo_evaluator.executors.slurm": ("NodePool", "SlurmCluster"),
    "nemo_evaluator.sandbox.apptainer": ("ApptainerSandbox=ApptainerConfig",),
    "nemo_evaluator.sandbox.custom": ("CustomSandbox=CustomConfig",),
    "nemo_evaluator.sandbox.docker": ("DockerSandbox=DockerConfig",),
    "nemo_evaluator.sandbox.ecs_fargate": ("EcsFargateSandbox=EcsFargateConfig", "SshSidecar"),
    "nemo_evaluator.sandbox.local": ("LocalSandbox=LocalConfig",),
    "nemo_evaluator.sandbox.none": ("NoSandbox=NoneConfig",),
    "nemo_evaluator.sandbox.slurm": ("SlurmSandbox=SlurmConfig",),
    "nemo_evaluator.scoring.metrics.custom": ("CustomMetric",),
    "nemo_evaluator.scoring.metrics.ensemble_judge": ("EnsembleJudgeMetric",),
    "nemo_evaluator.scoring.metrics.judge": ("JudgeMetric",),
    "nemo_evaluator.scoring.metrics.pairwise_judge": ("PairwiseJudgeMetric",),
    "nemo_evaluator.scoring.metrics.reward_model": ("RewardModelMetric",),
    "nemo_evaluator.scoring.metrics.sandbox": ("SandboxMetric",),
    "nemo_evaluator.scoring.metrics.scorer": ("ScorerMetric=ScorerMetricConfig",),
    "nemo_evaluator.services.api": ("ApiService",),
    "nemo_evaluator.services.custom": ("CustomService",),
    "nemo_evaluator.services.docker_model": ("DockerModelService",),
    "nemo_evaluator.services.dynamo": ("DynamoService", "DynamoWorkers"),
    "nemo_evaluator.services.gym": ("GymService",),
    "nemo_evaluator.services.llama_cpp": ("LlamaCppService",),
    "nemo_evaluator.services.nat": ("NatService",),
    "nemo_evaluator.services.nim": ("NimService",),
    "nemo_evaluator.services.sglang": ("SglangService",),
    "nemo_evaluator.services.trt_llm": ("TrtLlmService",),
    "nemo_evaluator.services.vllm": ("VllmService",),
    "nemo_evaluator.solvers.agent": ("AgentSolverConfig",),
    "nemo_evaluator.solvers.container": ("ContainerSolverConfig",),
    "nemo_evaluator.solvers.custom": ("CustomSolverConfig",),
    "nemo_evaluator.solvers.gym_delegation": ("GymDelegationSolverConfig",),
    "nemo_evaluator.solvers.harbor": ("HarborSolverConfig",),
    "nemo_evaluator.solvers.nat": ("NatSolverConfig",),
    "nemo_evaluator.solvers.openclaw": ("OpenClawSolverConfig",),
    "nemo_evaluator.solvers.oracle": ("OracleSolverConfig",),
    "nemo_evaluator.solvers.simple": ("SimpleSolverConfig",),
    "nemo_evaluator.solvers.tool_calling": ("McpServer", "ToolCallingSolverConfig"),
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES | _KINDS)
