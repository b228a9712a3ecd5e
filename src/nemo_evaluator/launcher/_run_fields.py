"""Fields of the run that need more than a new name: where it happens, its environment, its exports."""

from __future__ import annotations

from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.launcher._head import Handler, Head
from nemo_evaluator.launcher._values import variable
from nemo_evaluator.launcher.table import Outcome, Rule, rules, walk

_DESTINATIONS: Final = {"mlflow": {"experiment_name": "nemo-evaluator-launcher"}, "wandb": {}, "local": {}}


def execution_type(head: Head, name: str, value: Any) -> None:
    """Local or SLURM."""
    if value not in ("local", "slurm"):
        hint = "local and slurm are supported" if value == "lepton" else did_you_mean(str(value), ("local", "slurm"))
        head.draft.say(name, "refused", f"there is no executor {value!r}; {hint}")
        return
    head.draft.put(name, "cluster.type", value)


def mode(head: Head, name: str, value: Any) -> None:
    """All tasks at once, or one after the other."""
    tasks = as_list(as_dict(head.config.get("evaluation")).get("tasks"))
    if value not in ("parallel", "sequential", None):
        head.draft.say(name, "refused", did_you_mean(str(value), ("sequential", "parallel")))
    elif value == "parallel" and len(tasks) > 1:
        head.draft.put(name, "suite.parallel_benchmarks", len(tasks))
    else:
        head.draft.say(name, "translated", "benchmarks run one after the other")


def evaluation_mounts(head: Head, name: str, value: Any) -> None:
    """Folders of the evaluation."""
    head.mounts |= {str(host): str(inside) for host, inside in as_dict(value).items()}
    if not value:
        head.draft.say(name, "translated", "none")
    elif head.slurm:
        head.draft.put(name, "cluster.container_mounts", [f"{host}:{inside}" for host, inside in value.items()])
    else:
        head.draft.say(name, "warned", "only harness containers need them; benchmarks of nel see this machine's files")


def auxiliary_mounts(head: Head, name: str, value: Any) -> None:
    """Folders of auxiliary servers."""
    for service, mounts in as_dict(value).items():
        shown = [f"{host}:{inside}" for host, inside in as_dict(mounts).items()]
        head.draft.put(f"{name}.{service}", f"services.{service}.container_mounts", shown)
    if not value:
        head.draft.say(name, "translated", "none")


def env_everywhere(head: Head, name: str, value: Any) -> None:
    """The environment of server and evaluator."""
    evaluation_env(head, name, value)
    if head.kind != "none":
        server_env(head, name, value)


def evaluation_env(head: Head, name: str, value: Any) -> None:
    """Environment of the evaluator, which exports as well."""
    found = _variables(head, name, value)
    head.variables |= found
    if found:
        head.draft.put(name, "cluster.container_env", found)
    elif not value:
        head.draft.say(name, "translated", "none")


def server_env(head: Head, name: str, value: Any) -> None:
    """Environment of the server."""
    found = _variables(head, name, value)
    if found:
        head.put(name, "extra_env", found)
    elif not value:
        head.draft.say(name, "translated", "none")


def _variables(head: Head, name: str, value: Any) -> dict[str, str]:
    found = {}
    for key, text in as_dict(value).items():
        one = variable(key, text)
        if one.note:
            head.draft.say(f"{name}.{key}", one.outcome, one.note)
        if one.value is not None:
            found[key] = one.value
    return found


def destinations(head: Head, name: str, value: Any) -> None:
    """Trackers that get the results at the end."""
    for target in as_list(value) or ([value] if isinstance(value, str) else []):
        if target == "local":
            head.draft.put(name, "output.report", ["markdown", "json"])
        elif target in _DESTINATIONS:
            head.draft.put(name, "output.export", [target])
            if _DESTINATIONS[target]:
                head.draft.put(name, f"output.export_config.{target}", dict(_DESTINATIONS[target]))
        else:
            head.draft.say(name, "refused", f"nothing is exported to {target!r}; {did_you_mean(target, _DESTINATIONS)}")


def exporter(head: Head, name: str, value: Any) -> None:
    """Settings of a tracker."""
    target = name.partition(".")[2]
    auto = as_dict(head.execution.get("auto_export")).get("destinations") or []
    if target not in _DESTINATIONS:
        head.draft.say(name, "refused", f"nothing is exported to {target!r}; {did_you_mean(target, _DESTINATIONS)}")
        return
    if target not in auto:
        why = (
            f"execution.auto_export.destinations does not name {target}; `nel export --dest {target}` sends the results"
        )
        head.draft.say(name, "warned", why)
        return

    def apply(found: str, row: str, rule: Rule, given: Any) -> None:
        if rule.to is not None and given is not None:
            head.draft.put(f"export.{found}", f"output.export_config.{target}.{rule.to}", given)
        elif rule.by is not None:
            head.draft.put(f"export.{found}", "output.report", ["csv" if given == "csv" else "json"])
        elif not rule.needs_nothing(given, None):
            outcome: Outcome = "warned" if rule.warn else "refused"
            head.draft.say(f"export.{found}", outcome, str(rule.warn or rule.refuse))

    any_of = {key: given for key, given in as_dict(value).items() if f"*.{key}" in rules("export")}
    for key in any_of:
        head.draft.say(f"{name}.{key}", "refused", str(rules("export")[f"*.{key}"].refuse))
    rest = {key: given for key, given in as_dict(value).items() if key not in any_of}
    walk({target: rest}, "export", apply, lambda found, why: head.draft.say(f"export.{found}", "refused", why))


RUN_FIELDS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (
        *(execution_type, mode, evaluation_mounts, auxiliary_mounts),
        *(server_env, evaluation_env, env_everywhere, destinations, exporter),
    )
}
