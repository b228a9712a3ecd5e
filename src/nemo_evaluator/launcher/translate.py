"""From a config of the launcher to one of ours: every field translated, warned of, or refused."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from nemo_evaluator.config.urls import protocol_of_url
from nemo_evaluator.core.errors import ConfigError, Problem, UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher._run_fields import RUN_FIELDS
from nemo_evaluator.launcher._server_fields import SERVER_FIELDS
from nemo_evaluator.launcher._task_fields import TaskDraft, protocol_of
from nemo_evaluator.launcher.catalogue import Task, find_task
from nemo_evaluator.launcher.normalise import normalise
from nemo_evaluator.launcher.table import Draft, Translation, put_in

UNLISTED: Final = "NEMO_EVALUATOR_TRUST_UNLISTED_TASKS"
_CODE_IMAGE: Final = "python:3.12-slim"
_AUXILIARY: Final = "auxiliary_deployments."


@dataclass(frozen=True, slots=True)
class Translated:
    """A config of ours, and what became of every field."""

    config: JsonDict
    report: tuple[Translation, ...]

    def of(self, outcome: str) -> list[Translation]:
        """The fields with this outcome."""
        return [one for one in self.report if one.outcome == outcome]

    def check(self, source: str | None = None) -> None:
        """Raise a ConfigError with everything that was refused."""
        if refused := self.of("refused"):
            raise ConfigError([Problem(one.field, one.detail) for one in refused], source=source)


def translate(config: JsonDict, only: Sequence[str] = (), *, containers: bool = False, dry: bool = False) -> Translated:
    """Translate a composed config; ``only`` names tasks, ``containers`` runs each in its harness's container.

    ``dry``: shell that is not trusted is translated, with a warning, because nothing is run.
    """
    draft = Draft()
    config = normalise(copy.deepcopy(config), draft)
    execution, deployment = as_dict(config.get("execution")), as_dict(config.get("deployment"))
    head = Head(draft, execution, deployment, config, dry=dry, handlers=RUN_FIELDS | SERVER_FIELDS)
    put_in(draft.out, "services.model.type", head.type)
    head.apply({key: value for key, value in config.items() if key != "evaluation"})
    evaluation = as_dict(config.get("evaluation"))
    head.apply({"evaluation": {k: v for k, v in evaluation.items() if k not in ("tasks", "nemo_evaluator_config")}})
    tasks = [_task(head, number, as_dict(task), containers) for number, task in _chosen(evaluation, only, draft)]
    _services(head, [one for one in tasks if one is not None])
    return Translated(_ordered(draft.out), tuple(draft.report))


def _chosen(evaluation: JsonDict, only: Sequence[str], draft: Draft) -> list[tuple[int, Any]]:
    """The tasks, or those that ``-t`` names (``ifeval``, ``simple_evals.mmlu``, ``mmlu.0``), with their numbers."""
    tasks = list(enumerate(as_list(evaluation.get("tasks"))))
    if not tasks:
        draft.say("evaluation.tasks", "refused", "there are no tasks; `nel ls tasks` lists them")
    names = {number: str(as_dict(task).get("name")) for number, task in tasks}
    kept: set[int] = set()
    for word in only:
        fits = {n for n, name in names.items() if word in (name, name.rpartition(".")[2], f"{name}.{n}")}
        fits = fits or {n for n, name in names.items() if word == f"{name.rpartition('.')[2]}.{n}"}
        if not fits:
            known = ", ".join(f"{name}.{number}" for number, name in names.items())
            raise UsageError(f"-t {word}: no such task in the config", hint=f"its tasks: {known}")
        kept |= fits
    return [(number, task) for number, task in tasks if not only or number in kept]


def _task(head: Head, number: int, own: JsonDict, containers: bool) -> TaskDraft | None:
    shared, place = as_dict(head.config["evaluation"]), f"evaluation.tasks[{number}].name"
    try:
        task = find_task(str(own.get("name")), own.get("container"))
    except UsageError as error:
        head.draft.say(place, "refused", f"{error.message}: {error.hint}")
        return None
    contained = bool(own.get("container") or (task.harness and (containers or task.nel is None)))
    if contained and not task.listed and not own.get("container") and os.environ.get(UNLISTED) != "1":
        why = f"{task.full_name} is not in the catalogue; if you trust it: export {UNLISTED}=1"
        head.draft.say(place, "refused", why)
        return None
    draft = TaskDraft(head, number, task, contained, own, shared)
    merged = _merged(
        _merged({}, as_dict(shared.get("nemo_evaluator_config"))), as_dict(own.get("nemo_evaluator_config"))
    )
    config = merged if contained else _with_defaults(task, merged)
    endpoint = own.get("endpoint_type") or as_dict(as_dict(merged.get("target")).get("api_endpoint")).get("type")
    endpoint = endpoint or as_dict(as_dict(head.config.get("target")).get("api_endpoint")).get("type") or task.endpoint
    draft.bench |= {
        "name": task.container if contained else task.nel,
        "id": f"{task.name.replace('://', '_')}.{number}",
    }
    draft.bench["solver"] = {"type": "container" if contained else "simple", "service": "model"}
    if contained and (endpoint != "chat"):
        draft.bench["solver"]["endpoint_type"] = endpoint
    draft.service["protocol"] = _protocol(draft, str(endpoint))
    _surroundings(draft)
    draft.apply({key: value for key, value in own.items() if key != "nemo_evaluator_config"} | config)
    return draft


def _with_defaults(task: Task, config: JsonDict) -> JsonDict:
    """The launcher's own defaults of the task, under what the config says."""
    params = {key: value for key, value in task.defaults.items() if key not in ("num_repeats", "num_fewshot")}
    extra = {key: value for key, value in task.defaults.items() if key not in params}
    given = as_dict(as_dict(as_dict(config.get("config")).get("params")).get("extra"))
    if "n_samples" in given:
        extra.pop("num_repeats", None)
    return _merged({"config": {"params": {**params, **({"extra": extra} if extra else {})}}}, config)


def _merged(base: JsonDict, over: JsonDict) -> JsonDict:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _protocol(draft: TaskDraft, endpoint: str) -> str:
    """How the task asks; an endpoint of somebody else's speaks as its URL says."""
    found, url = protocol_of(endpoint), as_dict(draft.head.draft.out["services"]["model"]).get("url")
    if found is None:
        draft.say("name", "refused", f"{draft.task.full_name} asks a {endpoint} endpoint, which nel does not")
        return "chat_completions"
    spoken = protocol_of_url(str(url)) if url else None
    if spoken is not None and spoken != found:
        draft.say("name", "warned", f"the task is made for {found}, and the URL speaks {spoken}")
        return spoken
    return found


def _surroundings(draft: TaskDraft) -> None:
    """Arguments, sandbox, mounts and environment that the task needs, whatever its config says."""
    head, task = draft.head, draft.task
    if not draft.contained and task.params:
        draft.bench["params"] = dict(task.params)
    if not draft.contained and "sandbox" in task.needs:
        kind = {"type": "slurm", "node_pool": head.pool} if head.slurm else {"type": "docker"}
        draft.bench["sandbox"] = {**kind, "image": _CODE_IMAGE}
    if draft.contained and head.slurm:
        draft.bench["sandbox"] = {"type": "slurm", "node_pool": head.pool}
    if draft.contained:
        draft.bench["solver"] |= {"mounts": dict(head.mounts)} if head.mounts else {}
        draft.bench["solver"] |= {"env_vars": dict(head.variables)} if head.variables else {}


def _services(head: Head, tasks: list[TaskDraft]) -> None:
    """One server for all tasks; those that ask it in another way get a service of their own on it."""
    out, base = head.draft.out, head.draft.out["services"]["model"]
    for key in ("timeouts", "retry"):
        for one in tasks:
            for name, value in one.service.pop(key, {}).items():
                put_in(base, f"{key}.{name}", max(value, as_dict(base.get(key)).get(name, 0)))
    ways: list[JsonDict] = []
    for one in tasks:
        if one.service not in ways:
            ways.append(one.service)
        number = ways.index(one.service)
        name = "model" if number == 0 else f"model_{number + 1}"
        one.bench["solver"]["service"] = name
        if number and name not in out["services"]:
            out["services"][name] = _further(head, base, one)
        if one.judge is not None:
            _judge(head, one)
    if ways:
        _ask(base, ways[0])
    out["benchmarks"] = [one.bench for one in tasks]
    ours = [one.task.full_name for one in tasks if not one.contained and one.task.harness]
    if ours:
        why = "run as benchmarks of nel, whose prompts and graders differ; --containers runs the harness's own"
        head.draft.say(", ".join(dict.fromkeys(ours)), "warned", why)


def _further(head: Head, base: JsonDict, task: TaskDraft) -> JsonDict:
    if head.kind != "none":
        why = f"it asks the server in another way than the other tasks; run it alone: -t {task.task.name}"
        head.draft.say(f"evaluation.tasks[{task.number}]", "refused", why)
    further: JsonDict = copy.deepcopy(base)
    _ask(further, task.service)
    return further


def _ask(service: JsonDict, way: JsonDict) -> None:
    for key, value in way.items():
        put_in(service, f"proxy.{key}" if key in ("interceptors", "cache") else key, copy.deepcopy(value))


def _judge(head: Head, task: TaskDraft) -> None:
    """The judge as a service: one of the run's own, or an endpoint."""
    given = task.judge or {}
    name, services = "judge", head.draft.out["services"]
    url, model = str(given.get("url") or ""), given.get("model_id")
    key = given.get("api_key") or given.get("api_key_name")
    if url.startswith(_AUXILIARY):
        name = url.removeprefix(_AUXILIARY).partition(".")[0]
    else:
        wanted = {"type": "api", "url": url, "model": model} | ({"api_key": f"${{{key}}}"} if key else {})
        generation = {k: given[k] for k in ("temperature", "top_p", "max_tokens") if given.get(k) is not None}
        wanted |= {"generation": generation} if generation else {}
        while services.get(name, wanted) != wanted:
            name += "_2"
        services[name] = wanted
    metric = {"type": "judge", "name": "correctness", "service": name}
    task.put("config.params.extra.judge", "scoring.metrics", [metric])


def _ordered(out: JsonDict) -> JsonDict:
    order = ("services", "benchmarks", "cluster", "suite", "output")
    return {key: out[key] for key in order if key in out}
