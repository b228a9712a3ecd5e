"""The vintages of the launcher's dialect: older spellings become the one that the table of fields knows."""

from __future__ import annotations

from nemo_evaluator.config.compose import deep_merge
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import Draft, put_in


def normalise(config: JsonDict, draft: Draft) -> JsonDict:
    """The config in today's spelling; what was moved is reported."""
    config.pop("defaults", None)
    evaluation = config["evaluation"] = as_dict(config.get("evaluation"))
    target = as_dict(as_dict(config.get("target")).get("api_endpoint"))
    if adapter := target.pop("adapter_config", None):
        place = "nemo_evaluator_config.target.api_endpoint.adapter_config"
        put_in(evaluation, place, adapter)
        draft.say("target.api_endpoint.adapter_config", "translated", f"evaluation.{place}")
    owners = {f"evaluation.tasks[{n}]": as_dict(task) for n, task in enumerate(as_list(evaluation.get("tasks")))}
    for place, owner in {"evaluation": evaluation, **owners}.items():
        _nested(owner, place, draft)
    return config


def _nested(owner: JsonDict, place: str, draft: Draft) -> None:
    """``overrides`` (dotted), ``config`` and ``config.target`` become ``nemo_evaluator_config``."""
    inner, where = as_dict(owner.pop("nemo_evaluator_config", None)), f"{place}.nemo_evaluator_config"
    for key, value in as_dict(owner.pop("overrides", None)).items():
        put_in(inner, key, value)
        draft.say(f"{place}.overrides.{key}", "translated", f"{where}.{key}")
    if old := as_dict(owner.pop("config", None)):
        inner = deep_merge(inner, old)
        draft.say(f"{place}.config", "translated", where)
    if target := as_dict(inner.get("config")).pop("target", None):
        inner["target"] = deep_merge(as_dict(inner.get("target")), as_dict(target))
        draft.say(f"{where}.config.target", "warned", f"it belongs beside config, and is read from {where}.target")
    if inner:
        owner["nemo_evaluator_config"] = inner
