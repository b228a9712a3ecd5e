"""Write the advice on a checkpoint into a config: of nel, or of the launcher."""

import math
import shlex
from typing import Any, Final

import yaml

from nemo_evaluator.assistant.serving import GPUS_OF_A_NODE, RUNTIMES, Advice, Serving
from nemo_evaluator.assistant.yaml_text import MISSING, set_value
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.json_coerce import as_dict, as_list

# The launcher's deployments that run one of the engines.
_DEPLOYMENTS: Final = {"vllm": "vllm", "vllm_ray": "vllm", "sglang": "sglang", "trtllm": "trt_llm"}


def apply_advice(text: str, advice: Advice, model: str) -> tuple[str, list[str]]:
    """Write the advice into the text of a config.

    Args:
        text: The config; its comments and layout are kept.
        advice: What to set on its model server.
        model: The model to serve, for a config that leaves it open.

    Returns:
        The changed text, and one line per changed value.

    Raises:
        UsageError: If the config has not exactly one model server, or the model does not fit on the GPUs.
    """
    config = as_dict(yaml.safe_load(text))
    if "evaluation" in config:
        return _apply_to_launcher(text, config, advice, model=model)
    name, service = _only_server(text)
    _refuse_unfit(advice)
    values = _service_values(service, advice)
    if service.get("model") in (None, MISSING):
        values["model"] = model
    changed: list[str] = []
    for key, value in values.items():
        if value not in (None, [], service.get(key)):
            text = set_value(text, ["services", name, *key.split(".")], value)
            changed.append(f"services.{name}.{key}: {value}")
    return text, changed


def _refuse_unfit(advice: Advice) -> None:
    """Raise UsageError if the model does not fit on the GPUs."""
    if advice.sizes.fits is False:
        hint = "set the number of GPUs with --gpus N, and their size with --gpu-memory GB"
        raise UsageError(advice.sizes.note, hint=hint)


def _apply_to_launcher(
    text: str, config: dict[str, Any], advice: Advice, *, model: str
) -> tuple[str, list[str]]:
    """Write the advice into a config of the launcher; see ``apply_advice``."""
    runtime = _deployed_engine(config)
    _refuse_unfit(advice)
    deployment = as_dict(config.get("deployment"))
    values = _deployment_values(deployment, advice, advice.serving[runtime], model=model)
    nodes = math.ceil(advice.sizes.tensor * advice.sizes.pipeline / GPUS_OF_A_NODE)
    current: dict[str, Any] = {f"deployment.{key}": value for key, value in deployment.items()}
    if nodes > 1:
        values["execution.num_nodes_per_instance"] = nodes
    changed: list[str] = []
    for path, value in values.items():
        if value != current.get(path, ""):
            text = set_value(text, path.split("."), value)
            changed.append(f"{path}: {value}")
    return text, changed


def _deployed_engine(config: dict[str, Any]) -> str:
    """Return the engine that a config of the launcher deploys.

    Raises:
        UsageError: If it deploys none of the engines.
    """
    kind = as_dict(config.get("deployment")).get("type")
    for entry in as_list(config.get("defaults")):
        kind = as_dict(entry).get("deployment", kind)
    if kind not in _DEPLOYMENTS:
        message = f"the config deploys no {', '.join(_DEPLOYMENTS)}"
        raise UsageError(message, hint="--apply needs one of them under defaults")
    return _DEPLOYMENTS[kind]


def _deployment_values(
    deployment: dict[str, Any], advice: Advice, serving: Serving, *, model: str
) -> dict[str, Any]:
    """The settings of the launcher's deployment, by dotted path."""
    sizes = advice.sizes
    current_args = shlex.split(str(deployment.get("extra_args") or ""))
    values: dict[str, Any] = {
        "deployment.tensor_parallel_size": sizes.tensor,
        "deployment.pipeline_parallel_size": sizes.pipeline,
        "deployment.extra_args": shlex.join(_merged(current_args, serving.flags)),
    }
    if serving.runtime != "trt_llm":
        values["deployment.data_parallel_size"] = sizes.data
    names_model = any(
        deployment.get(key) not in (None, MISSING) for key in ("checkpoint_path", "hf_model_handle")
    )
    if not names_model:
        is_folder = model.startswith("/")
        if serving.runtime != "trt_llm":
            values["deployment.hf_model_handle"] = None if is_folder else model
        values["deployment.checkpoint_path"] = model if is_folder else None
    # The launcher mounts the checkpoint there.
    values["deployment.extra_args"] = values["deployment.extra_args"].replace(
        f"{advice.checkpoint.path}/", "/checkpoint/"
    )
    for variable, value in serving.env.items():
        values[f"deployment.env_vars.{variable}"] = f"lit:{value}"
    return values


def _only_server(text: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings of the only service that runs one of the engines."""
    services = as_dict(as_dict(yaml.safe_load(text)).get("services"))
    servers: list[tuple[str, dict[str, Any]]] = []
    for name, settings in services.items():
        if as_dict(settings).get("type") in RUNTIMES:
            servers.append((name, settings))
    if len(servers) != 1:
        count = f"{len(servers)} services" if servers else "no service"
        message = f"the config has {count} of type {', '.join(RUNTIMES)}"
        raise UsageError(message, hint="--apply needs exactly one")
    return servers[0]


def _service_values(service: dict[str, Any], advice: Advice) -> dict[str, Any]:
    """The settings of a model server, by dotted key."""
    sizes = advice.sizes
    serving = advice.serving[str(service["type"])]
    parallel = {
        "tensor_parallel_size": sizes.tensor,
        "pipeline_parallel_size": sizes.pipeline,
        "num_nodes": math.ceil(sizes.tensor * sizes.pipeline / GPUS_OF_A_NODE),
    }
    if service["type"] != "trt_llm":
        parallel["data_parallel_size"] = sizes.data
    # 1 is the default: it is written only over another value.
    values: dict[str, Any] = {}
    for key, size in parallel.items():
        if size > 1 or key in service:
            values[key] = size
    values["reasoning_parser"] = serving.reasoning_parser
    values["tool_parser"] = serving.tool_parser
    current_args = [str(argument) for argument in as_list(service.get("extra_args"))]
    values["extra_args"] = _merged(current_args, serving.args)
    for variable, value in serving.env.items():
        values[f"extra_env.{variable}"] = value
    return values


def _merged(current: list[str], advised: list[str]) -> list[str]:
    """Merge two lists of arguments; the advised ones replace current ones with the same name."""
    options = _options(current) | _options(advised)
    merged: list[str] = []
    for name, values in options.items():
        merged += [name, *values]
    return merged


def _options(arguments: list[str]) -> dict[str, list[str]]:
    """Group arguments by option: ``["--a=1", "--b", "2", "3"]`` gives ``{"--a": ["1"], "--b": ["2", "3"]}``."""
    options: dict[str, list[str]] = {}
    name = ""
    for argument in arguments:
        if argument.startswith("--"):
            name, *value = argument.split("=", 1)
            options[name] = value
        elif not name:
            # A list that does not begin with an option.
            name = argument
            options[name] = []
        else:
            options[name].append(argument)
    return options
