"""References between the parts of a config. All that are wrong are found at once, whatever else is wrong too.

Works on plain data, so that it can look at a config that the schema has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from nemo_evaluator.config._document import Path, show_path
from nemo_evaluator.config.clusters import NodePool
from nemo_evaluator.core.registry import nearest

MODEL_KINDS = ("api", "vllm", "sglang", "nim", "trt_llm", "docker_model", "dynamo", "llama_cpp", "custom")
AGENT_KINDS = ("nat", "nat_agent")
_KINDS = (*MODEL_KINDS, *AGENT_KINDS, "gym")
_MODEL_SOLVERS = ("simple", "harbor", "agent", "openclaw", "container", "tool_calling", "gym_delegation")


class Finding(NamedTuple):
    """One reference that is wrong."""

    path: Path
    message: str
    hint: str


def cross_check(data: Any) -> list[Finding]:
    """Every wrong reference of a config."""
    if not isinstance(data, dict):
        return []
    checks: tuple[Callable[[dict[str, Any]], Iterator[Finding]], ...] = (
        _solvers,
        _verifiers,
        _metrics,
        _dependencies,
        _node_pools,
        _stop_rules,
        _shards,
        _remote_output,
    )
    return [finding for check in checks for finding in check(data)]


def _solvers(data: dict[str, Any]) -> Iterator[Finding]:
    for path, benchmark in _benchmarks(data):
        solver = benchmark.get("solver")
        if not isinstance(solver, dict):
            continue
        kind = solver.get("type")
        wanted = MODEL_KINDS if kind in _MODEL_SOLVERS else AGENT_KINDS if kind in AGENT_KINDS else None
        yield from _service(data, solver, (*path, "solver", "service"), wanted)
        if kind == "tool_calling":
            yield from _service(data, solver, (*path, "solver", "resource_service"), ("gym", "custom"))
        if kind == "gym_delegation":
            yield from _service(data, solver, (*path, "solver", "gym_service"), ("gym", "custom"))


def _verifiers(data: dict[str, Any]) -> Iterator[Finding]:
    for path, benchmark in _benchmarks(data):
        yield from _service(data, benchmark, (*path, "verifier"), None)


def _metrics(data: dict[str, Any]) -> Iterator[Finding]:
    for path, benchmark in _benchmarks(data):
        solver = benchmark.get("solver")
        solving = solver.get("service") if isinstance(solver, dict) else None
        metrics = _get(benchmark, "scoring", "metrics")
        for number, metric in enumerate(metrics if isinstance(metrics, list) else []):
            if isinstance(metric, dict):
                yield from _metric(data, metric, (*path, "scoring", "metrics", number), solving)


def _metric(data: dict[str, Any], metric: dict[str, Any], path: Path, solving: Any) -> Iterator[Finding]:
    kind = metric.get("type")
    fields = {
        "judge": ("service",),
        "pairwise_judge": ("judge_service", "baseline_service"),
        "reward_model": ("service",),
    }.get(kind if isinstance(kind, str) else "", ())
    for name in fields:
        yield from _service(data, metric, (*path, name), MODEL_KINDS)
    judges = [(name, metric.get(name)) for name in fields if name != "baseline_service" and kind != "reward_model"]
    if kind == "ensemble_judge" and isinstance(metric.get("services"), list):
        for number, _ in enumerate(metric["services"]):
            yield from _service(data, metric["services"], (*path, "services", number), MODEL_KINDS)
        judges = [("services", name) for name in metric["services"]]
    for name, judge in judges:
        if isinstance(judge, str) and judge == solving and metric.get("allow_self_judge") is not True:
            hint = "use another service as judge, or set allow_self_judge: true"
            yield Finding((*path, name), f"the model {judge!r} would judge its own answers", hint)


def _service(data: dict[str, Any], owner: Any, path: Path, kinds: tuple[str, ...] | None) -> Iterator[Finding]:
    key = path[-1]
    name = owner[key] if isinstance(key, int) else owner.get(key)
    services = data.get("services")
    if not isinstance(name, str) or not name or not isinstance(services, dict):
        return
    if name not in services:
        close = nearest(name, [str(known) for known in services])
        known = ", ".join(map(str, services)) or "none"
        hint = f"did you mean {close!r}?" if close else f"known services: {known}"
        yield Finding(path, f"no service is called {name!r}", hint)
        return
    kind = _get(services, name, "type")
    if kinds is not None and kind in _KINDS and kind not in kinds:
        what = "a model service" if kinds == MODEL_KINDS else f"a service of type {kinds[0]}"
        fitting = [str(other) for other, service in services.items() if _get(service, "type") in kinds]
        hint = f"use {' or '.join(map(repr, fitting))}" if fitting else f"add {what} under services:"
        yield Finding(path, f"{name!r} is of type {kind}; {what} is needed here", hint)


def _dependencies(data: dict[str, Any]) -> Iterator[Finding]:
    services = data.get("services")
    if not isinstance(services, dict):
        return
    graph = {
        name: [target for target in _get(service, "depends_on") or [] if isinstance(target, str)]
        for name, service in services.items()
        if isinstance(_get(service, "depends_on") or [], list)
    }
    for name, targets in graph.items():
        for number, target in enumerate(targets):
            path = ("services", name, "depends_on", number)
            if target == name:
                yield Finding(path, f"{name!r} depends on itself", "remove it")
            elif target not in services:
                close = nearest(target, [str(known) for known in services])
                hint = f"did you mean {close!r}?" if close else f"known services: {', '.join(map(str, services))}"
                yield Finding(path, f"no service is called {target!r}", hint)
    circle = _circle(graph)
    if circle:
        shown = " -> ".join(circle)
        message = f"services wait for each other: {shown}"
        yield Finding(("services", circle[0], "depends_on"), message, "remove one of these depends_on entries")


def _circle(graph: Mapping[str, list[str]]) -> list[str] | None:
    """A circle of two or more names, if there is one; every name is visited once."""
    done: set[str] = set()
    for start in graph:
        trail: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = [(start, iter(graph[start]))] if start not in done else []
        while stack:
            name, targets = stack[-1]
            if len(trail) < len(stack):
                trail.append(name)
            target = next(targets, None)
            if target is None:
                done.add(name)
                stack.pop()
                trail.pop()
            elif target in trail and target != name:
                return [*trail[trail.index(target) :], target]
            elif target not in done and target != name and target in graph:
                stack.append((target, iter(graph[target])))
    return None


def _node_pools(data: dict[str, Any]) -> Iterator[Finding]:
    cluster = data.get("cluster")
    if not isinstance(cluster, dict) or cluster.get("type") != "slurm":
        return
    pools = cluster.get("node_pools")
    if not isinstance(pools, dict):
        return
    multi_node: dict[str, str] = {}
    for path, owner in _pool_users(data):
        name = owner.get("node_pool")
        if not isinstance(name, str):
            continue
        if name not in pools:
            close = nearest(name, [str(known) for known in pools])
            hint = f"did you mean {close!r}?" if close else f"known pools: {', '.join(map(str, pools))}"
            yield Finding((*path, "node_pool"), f"no node pool is called {name!r}", hint)
            continue
        pool = pools[name] if isinstance(pools[name], dict) else {}
        yield from _fits(path, owner, name, pool)
        if path[0] == "services" and _number(owner.get("num_nodes"), 1) > 1:
            if name in multi_node:
                message = f"{multi_node[name]!r} already spans the nodes of pool {name!r}"
                yield Finding((*path, "node_pool"), message, "give each multi-node service a pool of its own")
            multi_node[name] = str(path[1])


def _fits(path: Path, owner: dict[str, Any], name: str, pool: dict[str, Any]) -> Iterator[Finding]:
    gres = pool.get("gres")
    gpus = NodePool(partition="-", gres=gres).gpus if isinstance(gres, str) else None
    size = _number(owner.get("tensor_parallel_size"), 0)
    if gpus is not None and size > gpus:
        message = f"{size} GPUs are asked for, but pool {name!r} has {gpus} per node"
        yield Finding((*path, "tensor_parallel_size"), message, f"use at most {gpus}, or change gres of the pool")
    wanted, nodes = _number(owner.get("num_nodes"), 1), _number(pool.get("nodes"), 1)
    if wanted > nodes:
        message = f"{wanted} nodes are asked for, but pool {name!r} has {nodes}"
        yield Finding((*path, "num_nodes"), message, f"raise nodes of the pool to {wanted}")


def _stop_rules(data: dict[str, Any]) -> Iterator[Finding]:
    sharded = _get(data, "cluster", "type") == "slurm" and _get(data, "cluster", "shards")
    for path, benchmark in _benchmarks(data):
        if not benchmark.get("stop_when"):
            continue
        if benchmark.get("shuffle_seed", 0) is None:
            message = "the first problems of an unshuffled dataset are not a sample of it: a rule would be misled"
            yield Finding((*path, "stop_when"), message, "remove shuffle_seed: null, or stop_when")
        if _get(benchmark, "solver", "type") == "container":
            message = "a harness container owns its whole loop: nobody can stop it at a problem"
            yield Finding((*path, "stop_when"), message, "remove stop_when")
        if sharded:
            message = "a shard sees a part of the problems and cannot decide for the whole"
            yield Finding((*path, "stop_when"), message, "remove stop_when, or cluster.shards")


def _shards(data: dict[str, Any]) -> Iterator[Finding]:
    cluster = data.get("cluster")
    if not isinstance(cluster, dict) or cluster.get("type") != "slurm" or not cluster.get("shards"):
        return
    used = {owner.get("node_pool") for _, owner in _pool_users(data) if isinstance(owner.get("node_pool"), str)}
    if len(used) > 1:
        shown = ", ".join(sorted(map(str, used)))
        yield Finding(("cluster", "shards"), f"sharding allows one node pool, this config uses {shown}", "use one pool")


def _remote_output(data: dict[str, Any]) -> Iterator[Finding]:
    cluster = data.get("cluster")
    if not isinstance(cluster, dict) or cluster.get("type") != "slurm" or not cluster.get("hostname"):
        return
    folder = _get(data, "output", "dir")
    if folder is None or (isinstance(folder, str) and not PurePosixPath(folder).is_absolute()):
        message = "must be an absolute path when the cluster is reached over ssh"
        yield Finding(("output", "dir"), message, "write a path that begins with /")


def _pool_users(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for group in ("services", "sandboxes"):
        members = data.get(group)
        for name, member in members.items() if isinstance(members, dict) else ():
            if isinstance(member, dict):
                yield (group, name), member
    for path, benchmark in _benchmarks(data):
        if isinstance(benchmark.get("sandbox"), dict):
            yield (*path, "sandbox"), benchmark["sandbox"]


def _benchmarks(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    benchmarks = data.get("benchmarks")
    for number, benchmark in enumerate(benchmarks if isinstance(benchmarks, list) else []):
        if isinstance(benchmark, dict):
            yield ("benchmarks", number), benchmark


def _get(data: Any, *keys: str) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _number(value: Any, default: int) -> int:
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def describe(finding: Finding) -> str:
    """The finding in one line."""
    return f"{show_path(finding.path)}: {finding.message} ({finding.hint})"
