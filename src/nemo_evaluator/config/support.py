"""Which kinds and settings of the schema this version can run: one table, and the check that reads it.

An entry is None when the kind is built, and otherwise the reason why it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from nemo_evaluator.config._document import Document, Path
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.core.errors import ConfigError

NOT_BUILT = "not built in this version"

SERVICES: dict[str, str | None] = {
    "api": None,
    "llama_cpp": None,
    "vllm": None,
    "sglang": None,
    "nim": NOT_BUILT,
    "trt_llm": NOT_BUILT,
    "docker_model": NOT_BUILT,
    "dynamo": NOT_BUILT,
    "gym": None,
    "nat": NOT_BUILT,
    "nat_agent": NOT_BUILT,
    "custom": NOT_BUILT,
}
SANDBOXES: dict[str, str | None] = {
    "none": None,
    "local": None,
    "docker": None,
    "slurm": None,
    "apptainer": None,
    "ecs_fargate": None,
    "custom": None,
}
SOLVERS: dict[str, str | None] = {
    "simple": None,
    "custom": None,
    "tool_calling": None,
    "oracle": None,
    "harbor": NOT_BUILT,
    "agent": NOT_BUILT,
    "gym_delegation": NOT_BUILT,
    "nat": NOT_BUILT,
    "nat_agent": NOT_BUILT,
    "openclaw": NOT_BUILT,
    "container": NOT_BUILT,
}
METRICS: dict[str, str | None] = {
    "scorer": None,
    "judge": None,
    "pairwise_judge": None,
    "ensemble_judge": None,
    "sandbox": None,
    "reward_model": None,
    "custom": None,
}
CLUSTERS: dict[str, str | None] = {
    "local": None,
    "docker": NOT_BUILT,
    "slurm": NOT_BUILT,
    "ray": NOT_BUILT,
}
# Settings that have no effect yet, by "group.key", or by "group:type.key" where one kind alone lacks them.
SETTINGS: dict[str, str] = {
    "service.tokenizer": NOT_BUILT,
    "service.max_input_tokens": NOT_BUILT,
    "service.max_output_tokens": NOT_BUILT,
    "service:api.health_path": NOT_BUILT,
    "benchmark.context_window": NOT_BUILT,
    "benchmark.verifier": NOT_BUILT,
    "cluster:local.gpus": NOT_BUILT,
    "cluster:local.max_memory": NOT_BUILT,
    "cluster:local.container_env": NOT_BUILT,
}


@dataclass(frozen=True, slots=True)
class RuntimeSupport:
    """What can run, by group and kind."""

    services: dict[str, str | None] = field(default_factory=lambda: SERVICES)
    sandboxes: dict[str, str | None] = field(default_factory=lambda: SANDBOXES)
    solvers: dict[str, str | None] = field(default_factory=lambda: SOLVERS)
    metrics: dict[str, str | None] = field(default_factory=lambda: METRICS)
    clusters: dict[str, str | None] = field(default_factory=lambda: CLUSTERS)
    settings: dict[str, str] = field(default_factory=lambda: SETTINGS)


RUNTIME = RuntimeSupport()


def check_runtime(config: EvalConfig, supported: RuntimeSupport = RUNTIME, *, document: Document | None = None) -> None:
    """Refuse, by name and all at once, what the schema knows and this version cannot run.

    Raises ConfigError. ``document`` (of a LoadedConfig) gives the problems their lines.
    """
    place = document or Document({})
    problems = [place.problem(*found) for found in _unbuilt(config, supported)]
    if problems:
        raise ConfigError(problems)


def _unbuilt(config: EvalConfig, supported: RuntimeSupport) -> Iterator[tuple[Path, str, str]]:
    for name, service in config.services.items():
        yield from _kind(("services", name), "service", service.type, supported.services)
        yield from _settings(("services", name), "service", service, supported)
    for name, sandbox in config.sandboxes.items():
        yield from _kind(("sandboxes", name), "sandbox", sandbox.type, supported.sandboxes)
    named = list(config.sandboxes.values())
    for number, benchmark in enumerate(config.benchmarks):
        path = ("benchmarks", number)
        yield from _kind((*path, "solver"), "solver", benchmark.solver.type, supported.solvers)
        if benchmark.sandbox not in named:
            yield from _kind((*path, "sandbox"), "sandbox", benchmark.sandbox.type, supported.sandboxes)
        for place, metric in enumerate(benchmark.scoring.metrics):
            yield from _kind((*path, "scoring", "metrics", place), "metric", metric.type, supported.metrics)
        yield from _settings(path, "benchmark", benchmark, supported)
    yield from _kind(("cluster",), "cluster", config.cluster.type, supported.clusters)
    yield from _settings(("cluster",), "cluster", config.cluster, supported)


def _kind(path: Path, group: str, kind: str, table: dict[str, str | None]) -> Iterator[tuple[Path, str, str]]:
    reason = table.get(kind, NOT_BUILT)
    if reason is not None:
        built = ", ".join(name for name, why in table.items() if why is None)
        yield (*path, "type"), f"{group} type {kind!r} is {reason}", f"built: {built}"


def _settings(path: Path, group: str, owner: Any, supported: RuntimeSupport) -> Iterator[tuple[Path, str, str]]:
    for name in sorted(owner.model_fields_set):
        kind = getattr(owner, "type", "")
        reason = supported.settings.get(f"{group}.{name}") or supported.settings.get(f"{group}:{kind}.{name}")
        if reason is not None and getattr(owner, name):
            yield (*path, name), f"the setting {name!r} is {reason}", "remove it"
