"""From a config of the launcher to one of ours: every field translated, warned of, or refused."""

import copy
import os
from collections.abc import Iterator, Sequence
from typing import Any, Final

from nemo_evaluator.config.compose import deep_merge
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher._task import TaskScope
from nemo_evaluator.launcher.catalogue import Task, find_task
from nemo_evaluator.launcher.table import Translated, put_in

UNLISTED: Final = "NEMO_EVALUATOR_TRUST_UNLISTED_TASKS"
_AUXILIARY: Final = "auxiliary_deployments."
_EXTRA: Final = ("num_repeats", "num_fewshot")
_ORDER: Final = ("services", "benchmarks", "cluster", "suite", "output")


def translate(
    config: JsonDict, only: Sequence[str] = (), *, containers: bool = False, dry: bool = False
) -> Translated:
    """Translate a composed config; ``only`` names tasks, ``containers`` runs each in its harness's container. ``dry``:
    shell that is not trusted is translated, with a warning, because nothing is run."""
    draft = Translated()
    config = _normalised(copy.deepcopy(config), draft)
    evaluation = as_dict(config.get("evaluation"))
    head = Head(draft, config, dry=dry)
    put_in(draft.config, "services.model.type", head.type)
    rest: dict[str, Any] = {}
    for key, value in evaluation.items():
        if key not in ("tasks", "nemo_evaluator_config"):
            rest[key] = value
    head.translate({**config, "evaluation": rest})
    chosen = list(_chosen(evaluation, only, draft))
    tasks: list[TaskScope] = []
    for place, one in enumerate(chosen):
        task = _task(head, place, *one, containers)
        if task is not None:
            tasks.append(task)
    _services(head, tasks)
    draft.config["benchmarks"] = [one.bench for one in tasks]
    report = as_dict(draft.config.get("output")).get("report")
    if report:
        draft.config["output"]["report"] = list(dict.fromkeys(["markdown", *report]))
    draft.config = {key: draft.config[key] for key in _ORDER if key in draft.config}
    return draft


def _normalised(config: JsonDict, draft: Translated) -> JsonDict:
    """The config in the spelling that the table of fields knows; what was moved is reported."""
    config.pop("defaults", None)
    evaluation = config["evaluation"] = as_dict(config.get("evaluation"))
    target = as_dict(as_dict(config.get("target")).get("api_endpoint"))
    adapter = target.pop("adapter_config", None)
    if adapter:
        place = "nemo_evaluator_config.target.api_endpoint.adapter_config"
        put_in(evaluation, place, adapter)
        draft.say("target.api_endpoint.adapter_config", "translated", f"evaluation.{place}")
    owners: dict[str, dict[str, Any]] = {}
    for n, task in enumerate(as_list(evaluation.get("tasks"))):
        owners[f"evaluation.tasks[{n}]"] = as_dict(task)
    for place, owner in {"evaluation": evaluation, **owners}.items():
        _nested(owner, place, draft)
    return config


def _nested(owner: JsonDict, place: str, draft: Translated) -> None:
    """``overrides`` (dotted), ``config`` and ``config.target`` become ``nemo_evaluator_config``."""
    inner = as_dict(owner.pop("nemo_evaluator_config", None))
    where = f"{place}.nemo_evaluator_config"
    for key, value in as_dict(owner.pop("overrides", None)).items():
        put_in(inner, key, value)
        draft.say(f"{place}.overrides.{key}", "translated", f"{where}.{key}")
    old = as_dict(owner.pop("config", None))
    if old:
        inner = deep_merge(inner, old)
        draft.say(f"{place}.config", "translated", where)
    target = as_dict(inner.get("config")).pop("target", None)
    if target:
        inner["target"] = deep_merge(as_dict(inner.get("target")), as_dict(target))
        draft.say(
            f"{where}.config.target",
            "warned",
            f"it belongs beside config, and is read from {where}.target",
        )
    if inner:
        owner["nemo_evaluator_config"] = inner


def _chosen(
    evaluation: JsonDict, only: Sequence[str], draft: Translated
) -> Iterator[tuple[int, JsonDict]]:
    """The tasks, or those that ``-t`` names (``ifeval``, ``simple_evals.mmlu``, ``mmlu.0``), with their numbers."""
    tasks = [as_dict(task) for task in as_list(evaluation.get("tasks"))]
    if not tasks:
        draft.say("evaluation.tasks", "refused", "there are no tasks; `nel ls tasks` lists them")
    called: dict[str, set[int]] = {}
    for number, task in enumerate(tasks):
        name = str(task.get("name"))
        for word in (name, name.rpartition(".")[2]):
            called.setdefault(word, set()).add(number)
            called.setdefault(f"{word}.{number}", set()).add(number)
    unknown = next((word for word in only if word not in called), None)
    if unknown:
        known = ", ".join(f"{task.get('name')}.{number}" for number, task in enumerate(tasks))
        raise UsageError(f"-t {unknown}: no such task in the config", hint=f"its tasks: {known}")
    kept: set[int] = set()
    for word in only:
        for number in called[word]:
            kept.add(number)
    return ((number, task) for number, task in enumerate(tasks) if not only or number in kept)


def _task(head: Head, index: int, number: int, own: JsonDict, containers: bool) -> TaskScope | None:
    place = f"evaluation.tasks[{number}].name"
    image = own.get("container")
    try:
        task = find_task(str(own.get("name")), image)
    except UsageError as error:
        head.say(place, "refused", f"{error.message}: {error.hint}")
        return None
    if not task.listed and not image and os.environ.get(UNLISTED) != "1":
        head.say(
            place,
            "refused",
            f"{task.full_name} is not in the catalogue; if you trust it: export {UNLISTED}=1",
        )
        return None
    contained = bool(image or (task.harness and (containers or task.nel is None)))
    shared = head.config["evaluation"]
    given = deep_merge(
        as_dict(shared.get("nemo_evaluator_config")), as_dict(own.get("nemo_evaluator_config"))
    )
    asked: list[Any | None] = []
    for tree in (given, head.config):
        asked.append(as_dict(as_dict(tree.get("target")).get("api_endpoint")).get("type"))
    scope = TaskScope(head, index, number, task=task, own=own, shared=shared, contained=contained)
    scope.surround(str(next(filter(None, (own.get("endpoint_type"), *asked)), task.endpoint)))
    fields = scope.shell | {
        key: value for key, value in own.items() if key != "nemo_evaluator_config"
    }
    scope.translate(fields | (given if contained else deep_merge(_defaults(task, given), given)))
    return scope


def _defaults(task: Task, given: JsonDict) -> JsonDict:
    extra = {key: task.defaults[key] for key in _EXTRA if key in task.defaults}
    if "n_samples" in as_dict(as_dict(as_dict(given.get("config")).get("params")).get("extra")):
        extra.pop("num_repeats", None)
    params: JsonDict = {key: value for key, value in task.defaults.items() if key not in _EXTRA}
    return {"config": {"params": params | ({"extra": extra} if extra else {})}}


def _services(head: Head, tasks: list[TaskScope]) -> None:
    """One server for all tasks; those that ask it in another way than the first get a service of their own."""
    services = head.draft.config["services"]
    ways = []
    base = services["model"]
    for one in tasks:
        for key in ("timeouts", "retry"):
            for name, value in one.service.pop(key, {}).items():
                put_in(base, f"{key}.{name}", max(value, as_dict(base.get(key)).get(name, 0)))
    for one in tasks:
        if one.service not in ways:
            ways.append(one.service)
        number = ways.index(one.service)
        if number:
            one.bench["solver"]["service"] = f"model_{number + 1}"
        else:
            one.bench["solver"]["service"] = "model"
        if number and head.kind != "none":
            why = f"it needs different server settings from the other tasks; run it alone: -t {one.task.name}"
            head.say(f"evaluation.tasks[{one.number}]", "refused", why)
        if one.judge is not None:
            _judge(services, one, one.judge)
    for number, way in reversed(list(enumerate(ways))):
        if not number:
            service = services["model"]
        else:
            service = services.setdefault(f"model_{number + 1}", copy.deepcopy(base))
        for key, value in way.items():
            put_in(
                service,
                f"proxy.{key}" if key in ("interceptors", "cache") else key,
                copy.deepcopy(value),
            )
    for name, service in services.items():
        if str(service.get("image")).endswith(":latest"):
            why = f"{service['image']} is not pinned: another version may score otherwise"
            head.draft.say(f"image of {name}", "warned", why)
    ours = [one.task.full_name for one in tasks if not one.contained and one.task.harness]
    if ours:
        why = "run as benchmarks of nel, whose prompts and graders differ; --containers runs the harness's own"
        head.draft.say(", ".join(dict.fromkeys(ours)), "warned", why)


def _judge(services: JsonDict, task: TaskScope, given: JsonDict) -> None:
    """The judge as a service: a server of the run, or somebody else's endpoint."""
    name = "judge"
    url = str(given.get("url") or "")
    key = given.get("api_key") or given.get("api_key_name")
    if url.startswith(_AUXILIARY):
        name = url.removeprefix(_AUXILIARY).partition(".")[0]
    else:
        judge: JsonDict = {"type": "api", "url": url, "model": given.get("model_id")}
        judge |= {"api_key": f"${{{key}}}"} if key else {}
        sampling = {
            key: given[key]
            for key in ("temperature", "top_p", "max_tokens")
            if given.get(key) is not None
        }
        judge |= {"generation": sampling} if sampling else {}
        while services.setdefault(name, judge) != judge:
            name += "_2"
    metric: Any = {"type": "judge", "name": "correctness", "service": name}
    task.put("config.params.extra.judge", "scoring.metrics", [metric])
