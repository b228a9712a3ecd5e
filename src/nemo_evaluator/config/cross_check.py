"""Checks the references between the parts of a config, and reports all wrong ones together.

The checks work on plain data, so that they also run on a config that the schema has refused. The schema of each kind
declares which fields name a service, and which role that service must have (``Refers``).
"""

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from nemo_evaluator.config._document import Path as Path
from nemo_evaluator.config._document import show_path
from nemo_evaluator.config.fields import STEP_TIMEOUT, Refers, Role, protocol_of_url
from nemo_evaluator.config.groups import CLUSTERS, METRICS, SERVICES, SOLVERS
from nemo_evaluator.config.kinds import marks
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.kinds import Kinds
from nemo_evaluator.core.registry import did_you_mean


class WrongReference(NamedTuple):
    """A wrong reference, with its path in the config, a message and a hint."""

    path: Path
    message: str
    hint: str

    def __str__(self) -> str:
        """Return the path, the message and the hint in one line."""
        return f"{show_path(self.path)}: {self.message} ({self.hint})"


def benchmarks_of(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the benchmarks of a config that are mappings, with their paths."""
    for index, benchmark in enumerate(as_list(data.get("benchmarks"))):
        if isinstance(benchmark, dict):
            yield ("benchmarks", index), benchmark


def get_in(data: Any, *keys: str) -> Any:
    """Return the value under nested keys; None if there is none."""
    for key in keys:
        if not isinstance(data, dict):
            return None
        data = data.get(key)
    return data


def number_of(value: Any, default: int) -> int:
    """Return an integer, which may be written as text; ``default`` for anything else."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return default


def with_solver(entry: Any, data: dict[str, Any]) -> Any:
    """Fill in the solver of a benchmark.

    Args:
        entry: One entry of ``benchmarks``.
        data: The whole config.

    Returns:
        The entry with ``solver.type: simple`` and the only model as ``solver.service`` where they are left out. An
        entry that cannot be completed stays as it is: the schema reports what is missing.
    """
    if not isinstance(entry, dict):
        return entry
    written_solver = entry.get("solver")
    if written_solver is not None and not isinstance(written_solver, dict):
        return entry
    solver = {"type": "simple", **(written_solver or {})}
    if solver["type"] == "simple" and "service" not in solver:
        models = models_to_ask(data)
        if len(models) != 1:
            return entry
        solver["service"] = models[0]
    if solver == written_solver:
        return entry
    return {**entry, "solver": solver}


def models_to_ask(data: dict[str, Any]) -> list[str]:
    """Return the model services that a solver may use: all that are not the judge of a metric."""
    judges: set[Any] = set()
    for _, benchmark in benchmarks_of(data):
        for metric in get_in(benchmark, "scoring", "metrics") or []:
            judges.add(get_in(metric, "service"))
            judges.update(get_in(metric, "services") or [])
        judges.update(name for _, name in _roles_of(benchmark) if isinstance(name, str))
    models: list[str] = []
    for name, service in as_dict(data.get("services")).items():
        if name not in judges and _role(service) == "model":
            models.append(str(name))
    return models


_INSPECT = "inspect://"
_ROLES = {
    "model": "a model service",
    "gym": "a service of type gym",
    "agent": "a service of type nat",
}


def cross_check(data: dict[str, Any]) -> list[WrongReference]:
    """Find every wrong reference of a config.

    Args:
        data: The config as plain data; it may also be invalid in other ways.
    """
    wrong_references = [
        *_named(data),
        *_shared_servers(data),
        *_dependencies(data),
        *_stop_rules(data),
        *_batches(data),
        *_anthropic(data),
    ]
    cluster = _schema(CLUSTERS, data.get("cluster"))
    if cluster is not None:
        wrong_references += cluster.findings(data)  # type: ignore[attr-defined]
    return wrong_references


def _named(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield wrong service names in solvers, verifiers and metrics."""
    for path, benchmark in benchmarks_of(data):
        solver = benchmark.get("solver")
        yield from _references(data, SOLVERS, solver, path=(*path, "solver"), solving=None)
        yield from _service(data, benchmark.get("verifier"), (*path, "verifier"), role="gym")
        solving = get_in(benchmark, "solver", "service")
        for number, metric in enumerate(as_list(get_in(benchmark, "scoring", "metrics"))):
            metric_path = (*path, "scoring", "metrics", number)
            yield from _references(data, METRICS, metric, path=metric_path, solving=solving)
        yield from _role_players(data, benchmark, path, solving=solving)


def _roles_of(benchmark: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield the services that play roles in a task of Inspect, with their paths in the benchmark."""
    if not str(benchmark.get("name")).startswith(_INSPECT):
        return
    for field in ("roles", "model_roles"):
        for role, names in as_dict(get_in(benchmark, "params", field)).items():
            yield from _names_by_path(("params", field, role), names)


def _role_players(
    data: dict[str, Any], benchmark: dict[str, Any], path: Path, solving: Any
) -> Iterator[WrongReference]:
    """Yield wrong services of roles, and roles that the model under test would play.

    Args:
        data: The config.
        benchmark: The benchmark.
        path: Its path.
        solving: The service that answers it.
    """
    may_judge_itself = get_in(benchmark, "params", "allow_self_judge") is True
    for role_path, name in _roles_of(benchmark):
        full_path = (*path, *role_path)
        if not isinstance(name, str):
            yield WrongReference(full_path, f"{name!r} is not a service", "write ROLE: SERVICE")
            continue
        yield from _service(data, name, full_path, role="model")
        if name == solving and not may_judge_itself:
            yield _judging_itself(full_path, name)


def _judging_itself(path: Path, name: str) -> WrongReference:
    message = f"the model {name!r} would judge its own answers"
    hint = "use another service as judge, or set allow_self_judge: true"
    return WrongReference(path, message, hint)


def _references(
    data: dict[str, Any], kinds: Kinds, owner: Any, path: Path, solving: Any
) -> Iterator[WrongReference]:
    """Yield wrong service names in the settings ``owner`` of one kind, and models that judge their own answers.

    ``solving`` is the service that answers the benchmark; None if the owner is not a judge.
    """
    schema = _schema(kinds, owner)
    if schema is None:
        return
    may_judge_itself = owner.get("allow_self_judge") is True
    for field, mark in marks(schema, Refers):
        field_path = (*path, field)
        for name_path, name in _names_by_path(field_path, owner.get(field)):
            yield from _service(data, name, name_path, role=mark.role)
            judges_itself = mark.judges and isinstance(name, str) and name == solving
            if judges_itself and not may_judge_itself:
                yield _judging_itself(field_path, name)


def _names_by_path(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the service names in a field, which holds one or a list of them, with their paths."""
    if not isinstance(value, list):
        yield path, value
        return
    for number, name in enumerate(value):
        yield (*path, number), name


def _schema(kinds: Kinds, owner: Any) -> type[BaseModel] | None:
    """Return the schema of the settings of a kind; None if their ``type`` is unknown."""
    type_name = as_dict(owner).get("type")
    if isinstance(type_name, str) and type_name in kinds:
        return kinds.schema(type_name)
    return None


def _role(service: Any) -> Role:
    return cast("Role", getattr(_schema(SERVICES, service), "role", "any"))


def _service(data: dict[str, Any], name: Any, path: Path, role: Role) -> Iterator[WrongReference]:
    """Yield a problem for a service that is unknown or lacks the needed role."""
    services = data.get("services")
    if not isinstance(name, str) or not name or not isinstance(services, dict):
        return
    if name not in services:
        yield WrongReference(path, f"no service is called {name!r}", did_you_mean(name, services))
        return
    actual_role = _role(services[name])
    if role == actual_role or "any" in (role, actual_role):
        return
    suitable: list[str] = []
    for candidate, service in services.items():
        if _role(service) == role:
            suitable.append(repr(str(candidate)))
    hint = f"add {_ROLES[role]} under services:"
    if suitable:
        hint = f"use {' or '.join(suitable)}"
    type_name = get_in(services, name, "type")
    message = f"{name!r} is of type {type_name}; {_ROLES[role]} is needed here"
    yield WrongReference(path, message, hint)


def _shared_servers(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield shared services whose ``server`` is not a model service with a server of its own."""
    services = as_dict(data.get("services"))
    for name, service in services.items():
        if get_in(service, "type") != "shared":
            continue
        path = ("services", name, "server")
        server = get_in(service, "server")
        if get_in(services, server, "type") == "shared":
            hint = f"name the service that has it: {get_in(services, server, 'server')}"
            yield WrongReference(path, f"{server!r} has no server of its own", hint)
        else:
            yield from _service(data, server, path, role="model")


def _dependencies(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield wrong names in ``depends_on``, and circular dependencies."""
    services = data.get("services")
    if not isinstance(services, dict):
        return
    targets_by_service: dict[Any, list[str]] = {}
    for name, service in services.items():
        targets = get_in(service, "depends_on") or []
        if isinstance(targets, list):
            targets_by_service[name] = [target for target in targets if isinstance(target, str)]
    for name, targets in targets_by_service.items():
        for number, target in enumerate(targets):
            path = ("services", name, "depends_on", number)
            if target == name:
                yield WrongReference(path, f"{name!r} depends on itself", "remove it")
            elif target not in services:
                message = f"no service is called {target!r}"
                yield WrongReference(path, message, did_you_mean(target, services))
    yield from _dependency_circle(targets_by_service)


def _dependency_circle(targets_by_service: dict[Any, list[str]]) -> Iterator[WrongReference]:
    """Yield a problem for services that depend on each other in a circle."""
    sorter: TopologicalSorter[Any] = TopologicalSorter()
    for name, targets in targets_by_service.items():
        sorter.add(name, *(target for target in targets if target != name))
    try:
        sorter.prepare()
    except CycleError as error:
        # Reversed, each service is followed by one that it waits for.
        circle = error.args[1][::-1]
        message = f"services wait for each other: {' -> '.join(circle)}"
        hint = "remove one of these depends_on entries"
        yield WrongReference(("services", circle[0], "depends_on"), message, hint)


def _stop_rules(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield benchmarks whose ``stop_when`` cannot work with their other settings."""
    for path, benchmark in benchmarks_of(data):
        if not benchmark.get("stop_when"):
            continue
        if benchmark.get("shuffle_seed", 0) is None:
            message = "stop_when needs shuffled problems: an unshuffled dataset starts with no random sample"
            yield WrongReference(
                (*path, "stop_when"), message, "remove shuffle_seed: null, or stop_when"
            )
        if getattr(_schema(SOLVERS, benchmark.get("solver")), "owns_loop", False):
            message = (
                "a harness container runs all its problems in one go: nel cannot stop it early"
            )
            yield WrongReference((*path, "stop_when"), message, "remove stop_when")
        if get_in(data, "cluster", "shards"):
            message = "a shard has only a part of the problems and cannot decide for all of them"
            yield WrongReference(
                (*path, "stop_when"), message, "remove stop_when, or cluster.shards"
            )


def _batches(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield settings that do not work with a batch service: Ray workers, other solvers, timeouts of a step."""
    batch_services: list[str] = []
    for name, service in as_dict(data.get("services")).items():
        if get_in(service, "batch"):
            batch_services.append(name)
    if batch_services and get_in(data, "cluster", "type") == "ray":
        batch_path = ("services", batch_services[0], "batch")
        message = "workers of a Ray cluster cannot share a batch"
        hint = "remove batch, or use another cluster.type"
        yield WrongReference(batch_path, message, hint)
    for path, benchmark in benchmarks_of(data):
        solver = benchmark.get("solver")
        if get_in(solver, "service") not in batch_services:
            continue
        solver_type = get_in(solver, "type")
        if solver_type != "simple":
            message = (
                f"solver {solver_type} sends several requests per problem, and a batch takes one"
            )
            hint = "use solver: {type: simple}, or a service without batch"
            yield WrongReference((*path, "solver"), message, hint)
        for keys in (("timeout",), ("step_limits", "seconds")):
            if get_in(benchmark, *keys) not in (None, STEP_TIMEOUT):
                message = "has no effect on a step that waits for a batch"
                hint = "set max_wait of the service's batch instead"
                yield WrongReference((*path, *keys), message, hint)


def _anthropic(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield settings that Anthropic batches do not support, and missing ones that they require."""
    services = as_dict(data.get("services"))
    anthropic_services: list[str] = []
    for name in services:
        if get_in(services, name, "batch", "provider") == "anthropic":
            anthropic_services.append(name)
            yield from _anthropic_service(name, services[name])
    for path, benchmark in benchmarks_of(data):
        solver = benchmark.get("solver")
        name = get_in(solver, "service")
        if name not in anthropic_services:
            continue
        generation = get_in(solver, "generation")
        yield from _unsupported_by_anthropic(generation, (*path, "solver", "generation"))
        service_limit = get_in(services[name], "generation", "max_tokens")
        if not get_in(generation, "max_tokens") and not service_limit:
            message = "Anthropic batches need max_tokens"
            hint = "set generation.max_tokens on the service or the solver"
            yield WrongReference(("services", name, "generation"), message, hint)


def _anthropic_service(name: str, service: dict[str, Any]) -> Iterator[WrongReference]:
    """Yield the settings of a service that Anthropic batches do not support."""
    generation_path = ("services", name, "generation")
    yield from _unsupported_by_anthropic(service.get("generation"), generation_path)
    protocol = service.get("protocol") or protocol_of_url(str(service.get("url")))
    if protocol not in (None, "chat_completions"):
        message = f"Anthropic batches need protocol chat_completions, not {protocol}"
        hint = "set protocol: chat_completions, and a URL to match"
        yield WrongReference(("services", name, "protocol"), message, hint)


def _unsupported_by_anthropic(generation: Any, path: Path) -> Iterator[WrongReference]:
    """Yield the generation settings that Anthropic batches do not support."""
    for key in ("seed", "frequency_penalty", "presence_penalty"):
        if get_in(generation, key) is not None:
            hint = "remove it, or leave out batch"
            yield WrongReference((*path, key), "not supported by Anthropic batches", hint)
    temperature = get_in(generation, "temperature")
    if isinstance(temperature, int | float) and temperature > 1:
        hint = "lower it, or leave out batch"
        yield WrongReference((*path, "temperature"), "Anthropic accepts 0 to 1", hint)
