"""References between the parts of a config. All that are wrong are found at once, whatever else is wrong too.

Works on plain data, so that it can look at a config that the schema has refused. Which fields name a service, and which
role it must have, is said by the schema of each kind (``Refers``).
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
    """One reference that is wrong."""

    path: Path
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.message} ({self.hint})"


def benchmarks_of(data: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The benchmarks of a config that are mappings, with their paths."""
    for number, benchmark in enumerate(as_list(data.get("benchmarks"))):
        if isinstance(benchmark, dict):
            yield ("benchmarks", number), benchmark


def get_in(data: Any, *keys: str) -> Any:
    """What stands under keys, one below the other; None where there is nothing."""
    for key in keys:
        if isinstance(data, dict):
            data = data.get(key)
        else:
            data = None
    return data


def number_of(value: Any, default: int) -> int:
    """A whole number, also one that is written as text."""
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return default


def with_solver(entry: Any, data: dict[str, Any]) -> Any:
    """A benchmark with ``solver`` filled in where it is left out, or has no ``type``, or no ``service``."""
    if isinstance(entry, dict):
        given: Any | str | None = entry.get("solver")
    else:
        given = ""
    if given is not None and not isinstance(given, dict):
        return entry
    solver = {"type": "simple", **(given or {})}
    if solver["type"] == "simple" and "service" not in solver:
        models = models_to_ask(data)
        if len(models) != 1:
            # Left as it is: the schema says what is missing, beside everything else that is wrong.
            return entry
        solver["service"] = models[0]
    return entry if solver == given else {**entry, "solver": solver}


def models_to_ask(data: dict[str, Any]) -> list[str]:
    """The services that may be asked: models that no metric has for its judge."""
    judges: set[Any] = set()
    for _, benchmark in benchmarks_of(data):
        for metric in get_in(benchmark, "scoring", "metrics") or []:
            for name in (get_in(metric, "service"), *(get_in(metric, "services") or [])):
                judges.add(name)
    services = as_dict(data.get("services"))
    return [
        str(name) for name, one in services.items() if _role(one) == "model" and name not in judges
    ]


_ROLES = {
    "model": "a model service",
    "gym": "a service of type gym",
    "agent": "a service of type nat",
}


def cross_check(data: dict[str, Any]) -> list[WrongReference]:
    """Every wrong reference of a config."""
    found = [
        *_named(data),
        *_dependencies(data),
        *_stop_rules(data),
        *_batches(data),
        *_anthropic(data),
    ]
    cluster = _schema(CLUSTERS, data.get("cluster"))
    return [*found, *(cluster.findings(data) if cluster is not None else ())]  # type: ignore[attr-defined]


def _named(data: dict[str, Any]) -> Iterator[WrongReference]:
    """Wrong names in solvers, verifiers and metrics."""
    for path, benchmark in benchmarks_of(data):
        yield from _references(
            data, SOLVERS, benchmark.get("solver"), path=(*path, "solver"), solving=None
        )
        yield from _service(data, benchmark.get("verifier"), (*path, "verifier"), role="gym")
        solving = get_in(benchmark, "solver", "service")
        for number, metric in enumerate(as_list(get_in(benchmark, "scoring", "metrics"))):
            yield from _references(
                data, METRICS, metric, path=(*path, "scoring", "metrics", number), solving=solving
            )


def _references(
    data: dict[str, Any], kinds: Kinds, owner: Any, path: Path, solving: Any
) -> Iterator[WrongReference]:
    """Wrong service names in the settings of one kind, and judges of their own answers."""
    schema = _schema(kinds, owner)
    for field, mark in marks(schema, Refers) if schema is not None else ():
        named = owner.get(field)
        for place, name in enumerate(named) if isinstance(named, list) else [(None, named)]:
            where = (*path, field) if place is None else (*path, field, place)
            yield from _service(data, name, where, role=mark.role)
            if (
                mark.judges
                and isinstance(name, str)
                and name == solving
                and owner.get("allow_self_judge") is not True
            ):
                hint = "use another service as judge, or set allow_self_judge: true"
                yield WrongReference(
                    (*path, field), f"the model {name!r} would judge its own answers", hint
                )


def _schema(kinds: Kinds, owner: Any) -> type[BaseModel] | None:
    if isinstance(owner, dict):
        word = owner.get("type")
    else:
        word = None
    if isinstance(word, str) and word in kinds:
        return kinds.schema(word)
    return None


def _role(service: Any) -> Role:
    return cast("Role", getattr(_schema(SERVICES, service), "role", "any"))


def _service(data: dict[str, Any], name: Any, path: Path, role: Role) -> Iterator[WrongReference]:
    services = data.get("services")
    if not isinstance(name, str) or not name or not isinstance(services, dict):
        return
    if name not in services:
        yield WrongReference(path, f"no service is called {name!r}", did_you_mean(name, services))
    elif "any" not in (role, _role(services[name])) and _role(services[name]) != role:
        fitting = [str(other) for other, service in services.items() if _role(service) == role]
        if fitting:
            hint = f"use {' or '.join(map(repr, fitting))}"
        else:
            hint = f"add {_ROLES[role]} under services:"
        kind = get_in(services, name, "type")
        yield WrongReference(
            path, f"{name!r} is of type {kind}; {_ROLES[role]} is needed here", hint
        )


def _dependencies(data: dict[str, Any]) -> Iterator[WrongReference]:
    services = data.get("services")
    if not isinstance(services, dict):
        return
    graph: dict[Any, list[str]] = {}
    for name, service in services.items():
        if isinstance(get_in(service, "depends_on") or [], list):
            graph[name] = [
                target for target in get_in(service, "depends_on") or [] if isinstance(target, str)
            ]
    for name, targets in graph.items():
        for number, target in enumerate(targets):
            path = ("services", name, "depends_on", number)
            if target == name:
                yield WrongReference(path, f"{name!r} depends on itself", "remove it")
            elif target not in services:
                yield WrongReference(
                    path, f"no service is called {target!r}", did_you_mean(target, services)
                )
    try:
        TopologicalSorter(
            {name: [one for one in graph[name] if one != name] for name in graph}
        ).prepare()
    except CycleError as error:
        # Each waits for the one before it.
        circle = error.args[1][::-1]
        message = f"services wait for each other: {' -> '.join(circle)}"
        yield WrongReference(
            ("services", circle[0], "depends_on"), message, "remove one of these depends_on entries"
        )


def _stop_rules(data: dict[str, Any]) -> Iterator[WrongReference]:
    for path, benchmark in benchmarks_of(data):
        if not benchmark.get("stop_when"):
            continue
        if benchmark.get("shuffle_seed", 0) is None:
            message = "stop_when needs a shuffled dataset: the first problems of an unshuffled one are not a random sample"
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
    """Batches take single requests, of one process, and hours."""
    batched: list[str] = []
    for name, service in as_dict(data.get("services")).items():
        if get_in(service, "batch"):
            batched.append(name)
    if batched and get_in(data, "cluster", "type") == "ray":
        message = "workers of a Ray cluster cannot share a batch"
        yield WrongReference(
            ("services", batched[0], "batch"), message, "remove batch, or use another cluster.type"
        )
    for path, benchmark in benchmarks_of(data):
        solver = benchmark.get("solver")
        if get_in(solver, "service") not in batched:
            continue
        if get_in(solver, "type") != "simple":
            message = f"solver {get_in(solver, 'type')} sends several requests per problem, and a batch takes one"
            yield WrongReference(
                (*path, "solver"), message, "use solver: {type: simple}, or a service without batch"
            )
        for keys in (("timeout",), ("step_limits", "seconds")):
            if get_in(benchmark, *keys) not in (None, STEP_TIMEOUT):
                message = "has no effect on a step that waits for a batch"
                yield WrongReference(
                    (*path, *keys), message, "set max_wait of the service's batch instead"
                )


def _anthropic(data: dict[str, Any]) -> Iterator[WrongReference]:
    """What Anthropic's messages have no word for, or cannot do without; found before anything is asked."""
    services = as_dict(data.get("services"))
    named: list[str] = []
    for name in services:
        if get_in(services, name, "batch", "provider") == "anthropic":
            named.append(name)
    for name in named:
        yield from _unknown_there(
            services[name].get("generation"), ("services", name, "generation")
        )
        protocol = services[name].get("protocol") or protocol_of_url(str(services[name].get("url")))
        if protocol not in (None, "chat_completions"):
            message = f"Anthropic batches need protocol chat_completions, not {protocol}"
            yield WrongReference(
                ("services", name, "protocol"),
                message,
                "set protocol: chat_completions, and a URL to match",
            )
    for path, benchmark in benchmarks_of(data):
        solver = benchmark.get("solver")
        asked = get_in(benchmark, "solver", "service")
        if asked not in named:
            continue
        yield from _unknown_there(get_in(solver, "generation"), (*path, "solver", "generation"))
        if not any(get_in(one, "generation", "max_tokens") for one in (solver, services[asked])):
            hint = "set generation.max_tokens on the service or the solver"
            yield WrongReference(
                ("services", asked, "generation"), "Anthropic batches need max_tokens", hint
            )


def _unknown_there(generation: Any, path: Path) -> Iterator[WrongReference]:
    for key in ("seed", "frequency_penalty", "presence_penalty"):
        if get_in(generation, key) is not None:
            yield WrongReference(
                (*path, key), "not supported by Anthropic batches", "remove it, or leave out batch"
            )
    if isinstance(heat := get_in(generation, "temperature"), int | float) and heat > 1:
        yield WrongReference(
            (*path, "temperature"), "Anthropic accepts 0 to 1", "lower it, or leave out batch"
        )
