"""The catalogue's default parameters, as the route of a task takes them."""

from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.routes import TaskRoute

# Outside of the container, nel's own timeouts apply: those of the harness, often 30 seconds, only lose long answers.
_NOT_TRANSLATED: Final = ("request_timeout", "extra")
# Of a harness's extra parameters, those that other routes have too.
_SHARED_EXTRA: Final = ("num_repeats", "n_samples", "num_fewshot")


def default_settings(task: Task, route: TaskRoute, settings: JsonDict) -> JsonDict:
    """Return the defaults of a task in the form of ``nemo_evaluator_config``.

    A container gets all of them, so that the plan shows them. Parameters that are unset are left out.

    Args:
        task: The task.
        route: How nel runs it.
        settings: The user's settings, in the same form.
    """
    own_params = as_dict(as_dict(settings.get("config")).get("params"))
    if route.contained:
        params = without_unset(task.defaults)
    else:
        params = dict(route.defaults) | _shared_params(task, as_dict(own_params.get("extra")))
    if not params:
        return {}
    return {"config": {"params": params}}


def without_unset(values: Any) -> JsonDict:
    """Return a copy of nested parameters without those that are null."""
    kept: JsonDict = {}
    for key, value in values.items():
        if isinstance(value, dict):
            nested = without_unset(value)
            if nested:
                kept[key] = nested
        elif value is not None:
            kept[key] = value
    return kept


def _shared_params(task: Task, own_extra: JsonDict) -> JsonDict:
    """Return the defaults that exist outside of the harness's container.

    Args:
        task: The task.
        own_extra: The user's extra parameters; its number of repeats replaces the default, under either name.
    """
    params: JsonDict = {}
    for key, value in task.defaults.items():
        if key not in _NOT_TRANSLATED:
            params[key] = value
    extra: JsonDict = {}
    has_own_repeats = "num_repeats" in own_extra or "n_samples" in own_extra
    for key, value in as_dict(task.defaults.get("extra")).items():
        if key not in _SHARED_EXTRA or value is None:
            continue
        if key != "num_fewshot" and has_own_repeats:
            continue
        extra[key] = value
    if extra:
        params["extra"] = extra
    return params
