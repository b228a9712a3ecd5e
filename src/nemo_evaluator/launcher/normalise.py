"""The vintages of the launcher's dialect: older spellings become the one that the table of fields knows."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import Draft, put_in


def normalise(config: JsonDict, draft: Draft) -> JsonDict:
    """The config in today's spelling; what was moved is reported."""
    config.pop("defaults", None)
    evaluation = config["evaluation"] = as_dict(config.get("evaluation"))
    _nested(evaluation, "evaluation", draft)
    for number, task in enumerate(as_list(evaluation.get("tasks"))):
        if isinstance(task, dict):
            _nested(task, f"evaluation.tasks[{number}]", draft)
    target = as_dict(config.get("target")).get("api_endpoint")
    if isinstance(target, dict) and (adapter := target.pop("adapter_config", None)):
        place = "evaluation.nemo_evaluator_config.target.api_endpoint.adapter_config"
        put_in(evaluation, place.partition(".")[2], adapter)
        draft.say("target.api_endpoint.adapter_config", "translated", place)
    return config


def _nested(owner: JsonDict, place: str, draft: Draft) -> None:
    """``overrides`` (dotted), ``config`` and ``config.target`` become ``nemo_evaluator_config``."""
    inner = owner.setdefault("nemo_evaluator_config", {})
    for key, value in as_dict(owner.pop("overrides", None)).items():
        put_in(inner, key, value)
        draft.say(f"{place}.overrides.{key}", "translated", f"{place}.nemo_evaluator_config.{key}")
    if isinstance(old := owner.pop("config", None), dict):
        _lay(inner, old)
        draft.say(f"{place}.config", "translated", f"{place}.nemo_evaluator_config")
    target = as_dict(inner.get("config")).pop("target", None)
    if target is not None:
        inner["target"] = {**as_dict(inner.get("target")), **target}
        where = f"{place}.nemo_evaluator_config"
        draft.say(f"{where}.config.target", "warned", f"it belongs beside config, and is read from {where}.target")
    if not inner:
        del owner["nemo_evaluator_config"]


def _lay(tree: JsonDict, values: JsonDict) -> None:
    for key, value in values.items():
        below: Any = tree.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            _lay(below, value)
        else:
            tree[key] = value
