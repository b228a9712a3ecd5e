"""Translate a config of the launcher to one of nel: each field is translated, warned about or refused."""

import copy
import os
from collections.abc import Sequence
from typing import Any, Final

from nemo_evaluator.config.compose import deep_merge
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher._parameters import AUXILIARY
from nemo_evaluator.launcher._task import TaskScope
from nemo_evaluator.launcher.catalogue import Task, find_task
from nemo_evaluator.launcher.defaults import default_settings
from nemo_evaluator.launcher.routes import Preference, choose_route
from nemo_evaluator.launcher.table import Translated, put_in

UNLISTED: Final = "NEMO_EVALUATOR_TRUST_UNLISTED_TASKS"
_ORDER: Final = ("services", "benchmarks", "cluster", "suite", "output")


def translate(
    config: JsonDict, only: Sequence[str] = (), *, prefer: Preference = "same", dry: bool = False
) -> Translated:
    """Translate a composed config of the launcher.

    Args:
        config: The config; it is not changed.
        only: Names of the tasks to translate; empty: all.
        prefer: How to run tasks that can run in several ways.
        dry: Nothing will be run, so untrusted shell text is translated with a warning.

    Returns:
        nel's config, and the outcome of every field.

    Raises:
        UsageError: If ``only`` names a task that the config does not have.
    """
    draft = Translated()
    config = _normalised(copy.deepcopy(config), draft)
    evaluation = as_dict(config.get("evaluation"))
    head = Head(draft, config, dry=dry)
    put_in(draft.config, "services.model.type", head.type)
    shared_fields: dict[str, Any] = {}
    for key, value in evaluation.items():
        if key not in ("tasks", "nemo_evaluator_config"):
            shared_fields[key] = value
    head.translate({**config, "evaluation": shared_fields})
    tasks: list[TaskScope] = []
    for index, (number, fields) in enumerate(_chosen(evaluation, only, draft)):
        task = _task(head, index, number, own=fields, prefer=prefer)
        if task is not None:
            tasks.append(task)
    _services(head, tasks)
    _drop_unused(head, tasks)
    draft.config["benchmarks"] = [task.bench for task in tasks]
    output = as_dict(draft.config.get("output"))
    if output.get("report"):
        output["report"] = list(dict.fromkeys(["markdown", *output["report"]]))
    draft.config = {key: draft.config[key] for key in _ORDER if key in draft.config}
    return draft


def _normalised(config: JsonDict, draft: Translated) -> JsonDict:
    """Return the config in the one spelling that the table of fields knows; moved fields are reported."""
    config.pop("defaults", None)
    evaluation = config["evaluation"] = as_dict(config.get("evaluation"))
    target = as_dict(as_dict(config.get("target")).get("api_endpoint"))
    adapter = target.pop("adapter_config", None)
    if adapter:
        path = "nemo_evaluator_config.target.api_endpoint.adapter_config"
        put_in(evaluation, path, adapter)
        draft.say("target.api_endpoint.adapter_config", "translated", f"evaluation.{path}")
    owners: dict[str, dict[str, Any]] = {}
    for number, task in enumerate(as_list(evaluation.get("tasks"))):
        owners[f"evaluation.tasks[{number}]"] = as_dict(task)
    for path, owner in {"evaluation": evaluation, **owners}.items():
        _nested(owner, path, draft)
    return config


def _nested(owner: JsonDict, place: str, draft: Translated) -> None:
    """Merge ``overrides`` (dotted), ``config`` and ``config.target`` into ``nemo_evaluator_config``."""
    settings = as_dict(owner.pop("nemo_evaluator_config", None))
    settings_path = f"{place}.nemo_evaluator_config"
    for key, value in as_dict(owner.pop("overrides", None)).items():
        put_in(settings, key, value)
        draft.say(f"{place}.overrides.{key}", "translated", f"{settings_path}.{key}")
    config = as_dict(owner.pop("config", None))
    if config:
        settings = deep_merge(settings, config)
        draft.say(f"{place}.config", "translated", settings_path)
    target = as_dict(settings.get("config")).pop("target", None)
    if target:
        settings["target"] = deep_merge(as_dict(settings.get("target")), as_dict(target))
        draft.say(
            f"{settings_path}.config.target",
            "warned",
            f"it belongs beside config, and is read from {settings_path}.target",
        )
    if settings:
        owner["nemo_evaluator_config"] = settings


def _chosen(
    evaluation: JsonDict, only: Sequence[str], draft: Translated
) -> list[tuple[int, JsonDict]]:
    """Return all tasks with their numbers, or those that ``-t`` names (``ifeval``, ``mmlu.0``)."""
    tasks = [as_dict(task) for task in as_list(evaluation.get("tasks"))]
    if not tasks:
        draft.say("evaluation.tasks", "refused", "there are no tasks; `nel ls tasks` lists them")
    numbered_tasks = list(enumerate(tasks))
    if not only:
        return numbered_tasks
    numbers_of_name = _numbers_of_names(tasks)
    chosen_numbers: set[int] = set()
    for name in only:
        if name not in numbers_of_name:
            task_names = [f"{task.get('name')}.{number}" for number, task in numbered_tasks]
            raise UsageError(
                f"-t {name}: no such task in the config",
                hint=f"its tasks: {', '.join(task_names)}",
            )
        chosen_numbers |= numbers_of_name[name]
    return [(number, task) for number, task in numbered_tasks if number in chosen_numbers]


def _numbers_of_names(tasks: Sequence[JsonDict]) -> dict[str, set[int]]:
    """Return the numbers of the tasks that each name stands for: with or without harness and number."""
    numbers_of_name: dict[str, set[int]] = {}
    for number, task in enumerate(tasks):
        full_name = str(task.get("name"))
        short_name = full_name.rpartition(".")[2]
        for name in (full_name, short_name):
            numbers_of_name.setdefault(name, set()).add(number)
            numbers_of_name.setdefault(f"{name}.{number}", set()).add(number)
    return numbers_of_name


def _task(
    head: Head, index: int, number: int, *, own: JsonDict, prefer: Preference
) -> TaskScope | None:
    """Translate one task; None when it is refused as a whole.

    Args:
        head: The translation of the run around the task.
        index: Index among the chosen tasks.
        number: Index among all tasks of the config.
        own: The task's entry in the config.
        prefer: How to run the task if it can run in several ways.
    """
    image = own.get("container")
    task = _find_trusted(head, f"evaluation.tasks[{number}].name", str(own.get("name")), image)
    if task is None:
        return None
    route = choose_route(task, "containers" if image else prefer)
    shared = head.config["evaluation"]
    shared_settings = as_dict(shared.get("nemo_evaluator_config"))
    settings = deep_merge(shared_settings, as_dict(own.get("nemo_evaluator_config")))
    scope = TaskScope(head, index, number, task=task, own=own, shared=shared, route=route)
    endpoint_type = (
        own.get("endpoint_type")
        or _endpoint_type(settings)
        or _endpoint_type(head.config)
        or task.endpoint
    )
    scope.surround(str(endpoint_type))
    own_fields = {key: value for key, value in own.items() if key != "nemo_evaluator_config"}
    settings = deep_merge(default_settings(task, route, settings), settings)
    scope.translate(scope.shell | own_fields | settings)
    return scope


def _find_trusted(head: Head, field: str, name: str, image: str | None) -> Task | None:
    """Return a task that the catalogue lists, or that the user trusts; None when it is refused.

    Args:
        head: The translation of the run, which gets the reason of a refusal.
        field: The field with the name of the task.
        name: The name of the task.
        image: The container that the config gives for the task, if any.
    """
    try:
        task = find_task(name, image)
    except UsageError as error:
        head.say(field, "refused", f"{error.message}: {error.hint}")
        return None
    is_trusted = task.listed or bool(image) or os.environ.get(UNLISTED) == "1"
    if not is_trusted:
        reason = f"{task.full_name} is not in the catalogue; if you trust it: export {UNLISTED}=1"
        head.say(field, "refused", reason)
        return None
    return task


def _endpoint_type(tree: JsonDict) -> Any:
    """Return the endpoint type that a config's target sets, if any."""
    endpoint = as_dict(as_dict(tree.get("target")).get("api_endpoint"))
    return endpoint.get("type")


def _services(head: Head, tasks: list[TaskScope]) -> None:
    """Write the services: one server for all tasks, with a service of its own for each set of request settings."""
    services = head.draft.config["services"]
    base = services["model"]
    _share_patience(base, tasks)
    # The settings of model, model_2, model_3, ...
    variants: list[JsonDict] = []
    for task in tasks:
        if task.service not in variants:
            variants.append(task.service)
        variant = variants.index(task.service)
        task.bench["solver"]["service"] = _service_name(variant)
        if task.judge is not None:
            _judge(services, task, task.judge)
    # The other services take settings from the first before it gets those of its own tasks.
    for variant in reversed(range(1, len(variants))):
        other = copy.deepcopy(base) if head.kind == "none" else _shared(base)
        services.setdefault(_service_name(variant), other)
    for variant, settings in enumerate(variants):
        _put_service_settings(services[_service_name(variant)], settings)
    if "proxy" in base:
        for variant in range(1, len(variants)):
            # A shared service without a section of its own would have the interceptors of the first.
            services[_service_name(variant)].setdefault("proxy", {"interceptors": []})
    _warn_of_differences(head, tasks)


def _drop_unused(head: Head, tasks: list[TaskScope]) -> None:
    """Leave out auxiliary deployments that no task uses: they would reserve nodes."""
    evaluation = head.config["evaluation"]
    used_settings: list[Any] = [evaluation.get("nemo_evaluator_config")]
    for task in tasks:
        used_settings.append(task.own)
    text = repr(used_settings)
    for name in as_dict(head.config.get("auxiliary_deployments")):
        if f"{AUXILIARY}{name}" in text:
            continue
        head.draft.config["services"].pop(name, None)
        as_dict(as_dict(head.draft.config.get("cluster")).get("node_pools")).pop(name, None)
        reason = "no task uses it; it is not started, and reserves no node"
        head.draft.say(f"auxiliary_deployments.{name}", "warned", reason)


def _shared(base: JsonDict) -> JsonDict:
    """Make another service of the server that nel starts, with the proxy settings that all tasks have."""
    service: JsonDict = {"type": "shared", "server": "model"}
    if "proxy" in base:
        service["proxy"] = copy.deepcopy(base["proxy"])
    return service


def _put_service_settings(service: JsonDict, settings: JsonDict) -> None:
    """Write the request settings of tasks into their service; those of the proxy have a section of their own."""
    for key, value in settings.items():
        path = f"proxy.{key}" if key in ("interceptors", "cache") else key
        put_in(service, path, value)


def _service_name(variant: int) -> str:
    """Name a service by its place among the variants: model, model_2, model_3."""
    if variant == 0:
        return "model"
    return f"model_{variant + 1}"


def _share_patience(base: JsonDict, tasks: list[TaskScope]) -> None:
    """Give the model the longest timeouts and the most retries of all tasks."""
    for task in tasks:
        for key in ("timeouts", "retry"):
            for name, value in task.service.pop(key, {}).items():
                current = as_dict(base.get(key)).get(name, 0)
                put_in(base, f"{key}.{name}", max(value, current))


def _warn_of_differences(head: Head, tasks: list[TaskScope]) -> None:
    """Warn of images without a version, and of tasks that run as nel's own benchmarks."""
    for name, service in head.draft.config["services"].items():
        if str(service.get("image")).endswith(":latest"):
            reason = f"{service['image']} is not pinned: another version may score otherwise"
            head.draft.say(f"image of {name}", "warned", reason)
    native: list[str] = []
    for task in tasks:
        if not task.route.equal:
            native.append(task.task.full_name)
    if native:
        reason = "run as benchmarks of nel, whose prompts and graders differ; without --native, the harness runs"
        head.draft.say(", ".join(dict.fromkeys(native)), "warned", reason)


def _judge(services: JsonDict, task: TaskScope, settings: JsonDict) -> None:
    """Write a task's judge as a service: an auxiliary server of the run, or an external endpoint."""
    name = "judge"
    url = str(settings.get("url") or "")
    key = settings.get("api_key") or settings.get("api_key_name")
    if url.startswith(AUXILIARY):
        name = url.removeprefix(AUXILIARY).partition(".")[0]
    else:
        judge: JsonDict = {"type": "api", "url": url, "model": settings.get("model_id")}
        if key:
            judge["api_key"] = f"${{{key}}}"
        generation: JsonDict = {}
        for field in ("temperature", "top_p", "max_tokens"):
            if settings.get(field) is not None:
                generation[field] = settings[field]
        if generation:
            judge["generation"] = generation
        # Another judge may already have this name.
        while services.setdefault(name, judge) != judge:
            name += "_2"
    metric: Any = {"type": "judge", "name": "correctness", "service": name}
    task.put("config.params.extra.judge", "scoring.metrics", [metric])
