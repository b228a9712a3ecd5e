"""Every documented name of the Python surface resolves, or the migration page says what replaces it."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

MIGRATION = Path(__file__).resolve().parents[2] / "docs" / "migration.md"

NAMES = {
    "nemo_evaluator": """
        __version__ __package_name__ EvalEnvironment SeedResult VerifyResult register get_environment list_environments
        load_benchmark_file run_evaluation ModelClient Solver SolveResult ChatSolver CompletionSolver VLMSolver
        NatSolver OpenClawSolver benchmark scorer ScorerInput exact_match multichoice_regex answer_line fuzzy_match
        numeric_match code_sandbox code_sandbox_async needs_judge""",
    "nemo_evaluator.config": """
        EvalConfig BenchmarkConfig ScoringConfig OutputConfig ProxyConfig InterceptorConfig ModelTrafficConfig
        GenerationConfig SimpleSolverConfig HarborSolverConfig ToolCallingSolverConfig GymDelegationSolverConfig
        OpenClawSolverConfig ContainerSolverConfig compose_config parse_eval_config GatePolicy load_gate_policy
        default_policy""",
    "nemo_evaluator.engine": """
        run_evaluation write_all discover_bundles match_bundles compare_runs compare_results build_flip_report
        load_paired_records write_regression gate_runs write_gate_report RegressionReport FlipReport GateReport
        BenchmarkGate ModelClient""",
    "nemo_evaluator.engine.model_client": "ModelClient ToolCallingResponse ToolCallInfo",
    "nemo_evaluator.metrics": """
        pass_at_k bootstrap_ci sample_level_ci category_breakdown headline_score_metrics is_fractional mcnemar_test
        sign_test permutation_test""",
    "nemo_evaluator.errors": "GracefulError InfraError",
    "nemo_evaluator.schemas": "RetryConfig",
    "nemo_evaluator.observability.types": "ModelResponse",
    "nemo_evaluator.environments": "EvalEnvironment benchmark scorer ScorerInput register get_environment",
    "nemo_evaluator.environments.base": "EvalEnvironment SeedResult VerifyResult",
    "nemo_evaluator.environments.custom": "benchmark scorer image_builder ScorerInput",
    "nemo_evaluator.environments.registry": "register get_environment list_environments load_benchmark_file",
    "nemo_evaluator.solvers": """
        Solver SolveResult ErrorKind ChatSolver CompletionSolver VLMSolver ReActSolver OracleSolver
        HarborSolver""",
    "nemo_evaluator.solvers.base": "Solver SolveResult ErrorKind",
    "nemo_evaluator.scoring": """
        get_scorer list_scorers exact_match fuzzy_match multichoice_regex answer_line numeric_match mcq_extract
        extract_mcq_letter code_sandbox code_sandbox_async extract_json validate_json_schema needs_judge ScorerInput""",
    "nemo_evaluator.sandbox": """
        Sandbox SandboxSpec ExecResult VolumeMount OutsideEndpoint ImageSpec ImageBuildRequest""",
    "nemo_evaluator.sandbox.base": """
        Sandbox SandboxSpec ExecResult VolumeMount OutsideEndpoint ImageSpec ImageBuildRequest""",
    "nemo_evaluator.adapters": """
        AdapterRequest AdapterResponse InterceptorContext InterceptorRegistry RequestInterceptor
        RequestToResponseInterceptor ResponseInterceptor""",
    "nemo_evaluator.adapters.types": """
        AdapterRequest AdapterResponse InterceptorContext Stage RequestInterceptor RequestToResponseInterceptor
        ResponseInterceptor get_context set_context""",
    "nemo_evaluator.adapters.registry": "InterceptorRegistry",
    "nemo_evaluator.exporters": "get_exporter register_exporter",
}
# Gone on purpose, and what replaces it.
GONE = {
    "nemo_evaluator.schemas.EvalBundle": "nemo_evaluator.run_evaluation",
    "nemo_evaluator.adapters.start_adapter_proxy": "nemo_evaluator.adapters.Proxy",
    "nemo_evaluator.adapters.ProxyHandle": "nemo_evaluator.adapters.Proxy",
    "nemo_evaluator.adapters.AdapterPipeline": "nemo_evaluator.adapters.Pipeline",
    "nemo_evaluator.adapters.types.PostEvalHook": "nemo_evaluator.adapters.Interceptor",
}
PAIRS = [(module, name) for module, names in NAMES.items() for name in names.split()]


def resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None


@pytest.mark.parametrize("module", sorted({module for module, _ in PAIRS}))
def test_the_documented_names_of_a_module_resolve(module: str) -> None:
    names = [name for owner, name in PAIRS if owner == module]
    loaded = importlib.import_module(module)
    assert [name for name in names if getattr(loaded, name, None) is None] == []


@pytest.mark.parametrize("name", GONE)
def test_what_is_gone_has_a_replacement_on_the_migration_page(name: str) -> None:
    page = MIGRATION.read_text()
    assert resolve(name) is None, f"{name} is there: move it to NAMES"
    assert resolve(GONE[name]) is not None
    row = next(line for line in page.splitlines() if name.rpartition(".")[2] in line)
    assert GONE[name].rpartition(".")[2] in row


def test_run_evaluation_takes_the_documented_parameters() -> None:
    names = """env solver n_repeats max_problems config progress problem_range max_concurrent judge_client
        sandbox_manager model_url step_log_dir resume skip_failed max_system_retries shard_info instruction_template
        shuffle_seed"""
    documented = names.split()
    parameters = inspect.signature(resolve("nemo_evaluator.run_evaluation")).parameters
    assert list(parameters)[: len(documented)] == documented


def test_data_types_take_their_documented_fields_in_order() -> None:
    expected = {
        "SeedResult": """prompt expected_answer metadata messages system images sandbox_spec verify_sandbox_spec
            capture_cmd apply_cmd pre_agent_cmd""",
        "VerifyResult": "reward extracted_answer scoring_details metadata",
        "SolveResult": "response model_response trajectory reward scoring_details error error_kind",
        "ScorerInput": "response target metadata config sandbox",
        "sandbox.SandboxSpec": "image workdir env files entrypoint volumes environment_dir",
        "sandbox.ExecResult": "stdout stderr return_code",
        "sandbox.VolumeMount": """host_path container_path readonly efs_filesystem_id efs_root_directory
            efs_access_point_id""",
        "adapters.AdapterRequest": "method path headers body ctx",
        "adapters.AdapterResponse": "status_code headers body latency_ms ctx",
    }
    for name, fields in expected.items():
        parameters = list(inspect.signature(resolve(f"nemo_evaluator.{name}")).parameters)
        assert parameters[: len(fields.split())] == fields.split(), name


def test_config_classes_need_no_type() -> None:
    config = importlib.import_module("nemo_evaluator.config")
    for name in ("DockerSandbox", "LocalSandbox", "LocalCluster", "OracleSolverConfig"):
        assert getattr(config, name)().type
    solver = config.SimpleSolverConfig(service="m")
    assert solver.type == "simple"
    assert config.BenchmarkConfig(name="gsm8k", solver=solver).solver.service == "m"
    assert config.JudgeMetric(name="j", service="m").type == "judge"
