"""YAML to ``EvalConfig``: compose, override, expand, validate, snapshot. Names are imported on first use."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.config._document import Document as Document
    from nemo_evaluator.config.benchmarks import BenchmarkConfig as BenchmarkConfig
    from nemo_evaluator.config.benchmarks import BudgetConfig as BudgetConfig
    from nemo_evaluator.config.benchmarks import StepLimits as StepLimits
    from nemo_evaluator.config.benchmarks import StopWhen as StopWhen
    from nemo_evaluator.config.cluster_base import ClusterBase as ClusterBase
    from nemo_evaluator.config.cluster_base import ClusterConfig as ClusterConfig
    from nemo_evaluator.config.compose import compose_config as compose_config
    from nemo_evaluator.config.compose import playbook_names as playbook_names
    from nemo_evaluator.config.eval_config import DatasetsConfig as DatasetsConfig
    from nemo_evaluator.config.eval_config import EvalConfig as EvalConfig
    from nemo_evaluator.config.gate_policy import GatePolicy as GatePolicy
    from nemo_evaluator.config.gate_policy import PolicyDefaults as PolicyDefaults
    from nemo_evaluator.config.gate_policy import default_policy as default_policy
    from nemo_evaluator.config.gate_policy import load_gate_policy as load_gate_policy
    from nemo_evaluator.config.gate_policy import parse_gate_policy as parse_gate_policy
    from nemo_evaluator.config.load import LoadedConfig as LoadedConfig
    from nemo_evaluator.config.load import load_config as load_config
    from nemo_evaluator.config.load import load_mapping as load_mapping
    from nemo_evaluator.config.load import parse_eval_config as parse_eval_config
    from nemo_evaluator.config.managed_service import HelperService as HelperService
    from nemo_evaluator.config.managed_service import ManagedService as ManagedService
    from nemo_evaluator.config.output import OutputConfig as OutputConfig
    from nemo_evaluator.config.output import TrajectoriesConfig as TrajectoriesConfig
    from nemo_evaluator.config.sandbox_base import ImageSandbox as ImageSandbox
    from nemo_evaluator.config.sandbox_base import SandboxBase as SandboxBase
    from nemo_evaluator.config.sandbox_base import SandboxConfig as SandboxConfig
    from nemo_evaluator.config.schema import config_schema as config_schema
    from nemo_evaluator.config.scoring import MetricBase as MetricBase
    from nemo_evaluator.config.scoring import MetricConfig as MetricConfig
    from nemo_evaluator.config.scoring import RubricMetric as RubricMetric
    from nemo_evaluator.config.scoring import ScoringConfig as ScoringConfig
    from nemo_evaluator.config.service_base import ModelService as ModelService
    from nemo_evaluator.config.service_base import ServiceBase as ServiceBase
    from nemo_evaluator.config.service_base import ServiceConfig as ServiceConfig
    from nemo_evaluator.config.shared_service import SharedService as SharedService
    from nemo_evaluator.config.snapshot import SNAPSHOT as SNAPSHOT
    from nemo_evaluator.config.snapshot import snapshot_text as snapshot_text
    from nemo_evaluator.config.snapshot import write_snapshot as write_snapshot
    from nemo_evaluator.config.solver_base import SolverBase as SolverBase
    from nemo_evaluator.config.solver_base import SolverConfig as SolverConfig
    from nemo_evaluator.config.traffic import CacheConfig as CacheConfig
    from nemo_evaluator.config.traffic import GenerationConfig as GenerationConfig
    from nemo_evaluator.config.traffic import InterceptorConfig as InterceptorConfig
    from nemo_evaluator.config.traffic import ModelTrafficConfig as ModelTrafficConfig
    from nemo_evaluator.config.traffic import PriceConfig as PriceConfig
    from nemo_evaluator.config.traffic import ProxyConfig as ProxyConfig
    from nemo_evaluator.config.traffic import RetryConfig as RetryConfig
    from nemo_evaluator.config.traffic import TimeoutsConfig as TimeoutsConfig
    from nemo_evaluator.config.user_settings import load_settings as load_settings
    from nemo_evaluator.config.user_settings import settings_path as settings_path
    from nemo_evaluator.executors.docker import DockerCluster as DockerCluster
    from nemo_evaluator.executors.local import LocalCluster as LocalCluster
    from nemo_evaluator.executors.ray import RayCluster as RayCluster
    from nemo_evaluator.executors.slurm import NodePool as NodePool
    from nemo_evaluator.executors.slurm import SlurmCluster as SlurmCluster
    from nemo_evaluator.sandbox._ecs_tunnel import SshSidecar as SshSidecar
    from nemo_evaluator.sandbox.apptainer import ApptainerConfig
    from nemo_evaluator.sandbox.custom import CustomConfig
    from nemo_evaluator.sandbox.docker import DockerConfig
    from nemo_evaluator.sandbox.ecs_fargate import EcsFargateConfig
    from nemo_evaluator.sandbox.local import LocalConfig
    from nemo_evaluator.sandbox.none import NoneConfig
    from nemo_evaluator.sandbox.slurm import SlurmConfig
    from nemo_evaluator.scoring.metrics.custom import CustomMetric as CustomMetric
    from nemo_evaluator.scoring.metrics.ensemble_judge import (
        EnsembleJudgeMetric as EnsembleJudgeMetric,
    )
    from nemo_evaluator.scoring.metrics.judge import JudgeMetric as JudgeMetric
    from nemo_evaluator.scoring.metrics.pairwise_judge import (
        PairwiseJudgeMetric as PairwiseJudgeMetric,
    )
    from nemo_evaluator.scoring.metrics.reward_model import RewardModelMetric as RewardModelMetric
    from nemo_evaluator.scoring.metrics.sandbox import SandboxMetric as SandboxMetric
    from nemo_evaluator.scoring.metrics.scorer import ScorerMetricConfig
    from nemo_evaluator.services.api import ApiService as ApiService
    from nemo_evaluator.services.custom import CustomService as CustomService
    from nemo_evaluator.services.docker_model import DockerModelService as DockerModelService
    from nemo_evaluator.services.dynamo import DynamoService as DynamoService
    from nemo_evaluator.services.dynamo import DynamoWorkers as DynamoWorkers
    from nemo_evaluator.services.gym import GymService as GymService
    from nemo_evaluator.services.llama_cpp import LlamaCppService as LlamaCppService
    from nemo_evaluator.services.nat import NatService as NatService
    from nemo_evaluator.services.nim import NimService as NimService
    from nemo_evaluator.services.sglang import SglangService as SglangService
    from nemo_evaluator.services.trt_llm import TrtLlmService as TrtLlmService
    from nemo_evaluator.services.vllm import VllmService as VllmService
    from nemo_evaluator.solvers.agent import AgentSolverConfig as AgentSolverConfig
    from nemo_evaluator.solvers.container import ContainerSolverConfig as ContainerSolverConfig
    from nemo_evaluator.solvers.custom import CustomSolverConfig as CustomSolverConfig
    from nemo_evaluator.solvers.gym_delegation import (
        GymDelegationSolverConfig as GymDelegationSolverConfig,
    )
    from nemo_evaluator.solvers.harbor import HarborSolverConfig as HarborSolverConfig
    from nemo_evaluator.solvers.nat import NatSolverConfig as NatSolverConfig
    from nemo_evaluator.solvers.openclaw import OpenClawSolverConfig as OpenClawSolverConfig
    from nemo_evaluator.solvers.oracle import OracleSolverConfig as OracleSolverConfig
    from nemo_evaluator.solvers.simple import SimpleSolverConfig as SimpleSolverConfig
    from nemo_evaluator.solvers.tool_calling import (
        ToolCallingSolverConfig as ToolCallingSolverConfig,
    )
    from nemo_evaluator.solvers.tools.mcp import McpServer as McpServer

    ApptainerSandbox = ApptainerConfig
    CustomSandbox = CustomConfig
    DockerSandbox = DockerConfig
    EcsFargateSandbox = EcsFargateConfig
    LocalSandbox = LocalConfig
    NoSandbox = NoneConfig
    ScorerMetric = ScorerMetricConfig
    SlurmSandbox = SlurmConfig

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "AgentSolverConfig": "nemo_evaluator.solvers.agent",
        "ApiService": "nemo_evaluator.services.api",
        "ApptainerSandbox": "nemo_evaluator.sandbox.apptainer:ApptainerConfig",
        "BenchmarkConfig": "nemo_evaluator.config.benchmarks",
        "BudgetConfig": "nemo_evaluator.config.benchmarks",
        "CacheConfig": "nemo_evaluator.config.traffic",
        "ClusterBase": "nemo_evaluator.config.cluster_base",
        "ClusterConfig": "nemo_evaluator.config.cluster_base",
        "ContainerSolverConfig": "nemo_evaluator.solvers.container",
        "CustomMetric": "nemo_evaluator.scoring.metrics.custom",
        "CustomSandbox": "nemo_evaluator.sandbox.custom:CustomConfig",
        "CustomService": "nemo_evaluator.services.custom",
        "CustomSolverConfig": "nemo_evaluator.solvers.custom",
        "DatasetsConfig": "nemo_evaluator.config.eval_config",
        "DockerCluster": "nemo_evaluator.executors.docker",
        "DockerModelService": "nemo_evaluator.services.docker_model",
        "DockerSandbox": "nemo_evaluator.sandbox.docker:DockerConfig",
        "Document": "nemo_evaluator.config._document",
        "DynamoService": "nemo_evaluator.services.dynamo",
        "DynamoWorkers": "nemo_evaluator.services.dynamo",
        "EcsFargateSandbox": "nemo_evaluator.sandbox.ecs_fargate:EcsFargateConfig",
        "EnsembleJudgeMetric": "nemo_evaluator.scoring.metrics.ensemble_judge",
        "EvalConfig": "nemo_evaluator.config.eval_config",
        "GatePolicy": "nemo_evaluator.config.gate_policy",
        "GenerationConfig": "nemo_evaluator.config.traffic",
        "GymDelegationSolverConfig": "nemo_evaluator.solvers.gym_delegation",
        "GymService": "nemo_evaluator.services.gym",
        "HarborSolverConfig": "nemo_evaluator.solvers.harbor",
        "HelperService": "nemo_evaluator.config.managed_service",
        "ImageSandbox": "nemo_evaluator.config.sandbox_base",
        "InterceptorConfig": "nemo_evaluator.config.traffic",
        "JudgeMetric": "nemo_evaluator.scoring.metrics.judge",
        "LlamaCppService": "nemo_evaluator.services.llama_cpp",
        "LoadedConfig": "nemo_evaluator.config.load",
        "LocalCluster": "nemo_evaluator.executors.local",
        "LocalSandbox": "nemo_evaluator.sandbox.local:LocalConfig",
        "ManagedService": "nemo_evaluator.config.managed_service",
        "McpServer": "nemo_evaluator.solvers.tools.mcp",
        "MetricBase": "nemo_evaluator.config.scoring",
        "MetricConfig": "nemo_evaluator.config.scoring",
        "ModelService": "nemo_evaluator.config.service_base",
        "ModelTrafficConfig": "nemo_evaluator.config.traffic",
        "NatService": "nemo_evaluator.services.nat",
        "NatSolverConfig": "nemo_evaluator.solvers.nat",
        "NimService": "nemo_evaluator.services.nim",
        "NoSandbox": "nemo_evaluator.sandbox.none:NoneConfig",
        "NodePool": "nemo_evaluator.executors.slurm",
        "OpenClawSolverConfig": "nemo_evaluator.solvers.openclaw",
        "OracleSolverConfig": "nemo_evaluator.solvers.oracle",
        "OutputConfig": "nemo_evaluator.config.output",
        "PairwiseJudgeMetric": "nemo_evaluator.scoring.metrics.pairwise_judge",
        "PolicyDefaults": "nemo_evaluator.config.gate_policy",
        "PriceConfig": "nemo_evaluator.config.traffic",
        "ProxyConfig": "nemo_evaluator.config.traffic",
        "RayCluster": "nemo_evaluator.executors.ray",
        "RetryConfig": "nemo_evaluator.config.traffic",
        "RewardModelMetric": "nemo_evaluator.scoring.metrics.reward_model",
        "RubricMetric": "nemo_evaluator.config.scoring",
        "SNAPSHOT": "nemo_evaluator.config.snapshot",
        "SandboxBase": "nemo_evaluator.config.sandbox_base",
        "SandboxConfig": "nemo_evaluator.config.sandbox_base",
        "SandboxMetric": "nemo_evaluator.scoring.metrics.sandbox",
        "ScorerMetric": "nemo_evaluator.scoring.metrics.scorer:ScorerMetricConfig",
        "ScoringConfig": "nemo_evaluator.config.scoring",
        "ServiceBase": "nemo_evaluator.config.service_base",
        "ServiceConfig": "nemo_evaluator.config.service_base",
        "SglangService": "nemo_evaluator.services.sglang",
        "SharedService": "nemo_evaluator.config.shared_service",
        "SimpleSolverConfig": "nemo_evaluator.solvers.simple",
        "SlurmCluster": "nemo_evaluator.executors.slurm",
        "SlurmSandbox": "nemo_evaluator.sandbox.slurm:SlurmConfig",
        "SolverBase": "nemo_evaluator.config.solver_base",
        "SolverConfig": "nemo_evaluator.config.solver_base",
        "SshSidecar": "nemo_evaluator.sandbox._ecs_tunnel",
        "StepLimits": "nemo_evaluator.config.benchmarks",
        "StopWhen": "nemo_evaluator.config.benchmarks",
        "TimeoutsConfig": "nemo_evaluator.config.traffic",
        "ToolCallingSolverConfig": "nemo_evaluator.solvers.tool_calling",
        "TrajectoriesConfig": "nemo_evaluator.config.output",
        "TrtLlmService": "nemo_evaluator.services.trt_llm",
        "VllmService": "nemo_evaluator.services.vllm",
        "compose_config": "nemo_evaluator.config.compose",
        "config_schema": "nemo_evaluator.config.schema",
        "default_policy": "nemo_evaluator.config.gate_policy",
        "load_config": "nemo_evaluator.config.load",
        "load_gate_policy": "nemo_evaluator.config.gate_policy",
        "load_mapping": "nemo_evaluator.config.load",
        "load_settings": "nemo_evaluator.config.user_settings",
        "parse_eval_config": "nemo_evaluator.config.load",
        "parse_gate_policy": "nemo_evaluator.config.gate_policy",
        "playbook_names": "nemo_evaluator.config.compose",
        "settings_path": "nemo_evaluator.config.user_settings",
        "snapshot_text": "nemo_evaluator.config.snapshot",
        "write_snapshot": "nemo_evaluator.config.snapshot",
    },
)
