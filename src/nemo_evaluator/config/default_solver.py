"""The solver of a benchmark that names none: one call to the only model among the services."""

from typing import Any

from nemo_evaluator.config.findings import benchmarks_of, get_in
from nemo_evaluator.config.groups import SERVICES


def with_solvers(data: dict[str, Any]) -> dict[str, Any]:
    """The config with ``solver`` filled in where it is left out, or has no ``type``, or no ``service``."""
    entries = data.get("benchmarks")
    if not isinstance(entries, list) or all(_is_whole(entry) for entry in entries):
        return data
    return {**data, "benchmarks": [entry if _is_whole(entry) else _filled(entry, data) for entry in entries]}


def _is_whole(entry: Any) -> bool:
    """True when there is nothing to fill in, or the schema is to say what is wrong."""
    if not isinstance(entry, dict):
        return True
    solver = entry.get("solver")
    if solver is None:
        return False
    return (
        not isinstance(solver, dict) or solver.get("type", "simple") != "simple" or {"type", "service"} <= set(solver)
    )


def _filled(entry: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    solver = {"type": "simple"} | (entry.get("solver") or {})
    if "service" not in solver:
        models = models_to_ask(data)
        if len(models) != 1:
            # Left as it is: the schema says what is missing, beside everything else that is wrong.
            return entry
        solver["service"] = models[0]
    return {**entry, "solver": solver}


def models_to_ask(data: dict[str, Any]) -> list[str]:
    """The services that may be asked: models that no metric has for its judge."""
    services = data.get("services")
    judges = {
        name
        for _, benchmark in benchmarks_of(data)
        for metric in get_in(benchmark, "scoring", "metrics") or []
        for name in (get_in(metric, "service"), *(get_in(metric, "services") or []))
    }
    named = services.items() if isinstance(services, dict) else ()
    return [str(name) for name, service in named if _is_model(service) and name not in judges]


def _is_model(service: Any) -> bool:
    word = get_in(service, "type")
    return isinstance(word, str) and word in SERVICES and getattr(SERVICES.schema(word), "role", "") == "model"
