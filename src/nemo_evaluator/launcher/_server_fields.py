"""Fields of the model server that need more than a new name: topology, weights, command, endpoint."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher._head import TYPES, Handler, Head

TRUST: Final = "NEMO_EVALUATOR_TRUST_PRE_CMD"
_SPANS_NODES: Final = ("vllm", "vllm_ray", "sglang")
# What the launcher's commands have besides the fields of a deployment.
_IMPLIED: Final = {
    "vllm": ["--trust-remote-code"],
    "vllm_ray": ["--trust-remote-code"],
    "trtllm": ["--backend", "pytorch", "--trust_remote_code"],
}


def readiness(head: Head, name: str, value: Any) -> None:
    """How long a server may take; on SLURM as long as the job, where nothing else is said."""
    seconds = value if value is not None else seconds_of(str(head.execution.get("walltime") or "")) or 3600
    if head.kind != "none":
        head.put(name, "startup_timeout", seconds)
    else:
        head.draft.say(name, "translated", "no server is started (deployment: none)")


def shape_of(execution: JsonDict, deployment: JsonDict) -> tuple[int, int] | str:
    """Servers, and the nodes of each, in the spelling of any vintage; or what is wrong with it."""
    servers, each = int(execution.get("num_instances") or 1), execution.get("num_nodes_per_instance")
    nodes, tasks = int(execution.get("num_nodes") or 1), as_dict(execution.get("deployment")).get("n_tasks")
    if deployment.get("multiple_instances"):
        return int(tasks or nodes), 1
    if each is None:
        # `num_instances` alone means servers of one node; `num_nodes` is the number of all nodes.
        if nodes > 1 and nodes % servers:
            return f"{nodes} nodes cannot be divided among {servers} instances"
        each = max(1, nodes // servers)
    elif nodes not in (1, int(each) * servers):
        return f"num_nodes is {nodes}, but {servers} instances of {each} nodes are {int(each) * servers}"
    if tasks is not None and int(tasks) not in (1, nodes, servers, servers * int(each)):
        return f"n_tasks is {tasks}: nel starts one task on every node of a server"
    return servers, int(each)


def topology(head: Head, name: str, value: Any) -> None:
    """How many servers there are, and over how many nodes each of them spans."""
    shape = shape_of(head.execution, head.deployment)
    if isinstance(shape, str):
        head.draft.say(name, "refused", shape)
        return
    servers, each = shape
    if head.kind == "none":
        total = servers * each
        if total > 1:
            head.draft.put(name, f"cluster.node_pools.{head.pool}.nodes", total)
        else:
            head.draft.say(name, "translated", "one node")
    elif each > 1 and head.kind not in _SPANS_NODES:
        head.draft.say(name, "refused", f"a {head.kind} server runs on one node; use num_instances, or vllm")
    elif each == servers == 1:
        head.draft.say(name, "translated", "one server on one node")
    else:
        if each > 1:
            head.put(name, "num_nodes_per_instance", each)
        if servers > 1:
            head.put(name, "num_instances", servers)


def balancer(head: Head, name: str, value: Any) -> None:
    """HAProxy is not needed: requests are balanced by nel itself."""
    if as_dict(value).get("type", "haproxy") != "haproxy":
        head.draft.say(name, "refused", f"there is no balancer {as_dict(value).get('type')!r}; nel balances by itself")
        return
    several = head.execution.get("num_instances") not in (None, 1)
    why = "nel balances requests by itself; `balancer: haproxy` of the service starts HAProxy instead"
    head.draft.say(name, "warned" if several else "translated", why if several else "one server needs no balancer")


def server_mounts(head: Head, name: str, value: Any) -> None:
    """Folders of the server's container."""
    if value:
        head.put(name, "container_mounts", [f"{host}:{inside}" for host, inside in as_dict(value).items()])
    else:
        head.draft.say(name, "translated", "none")


def deployment_type(head: Head, name: str, value: Any) -> None:
    """The kind of server."""
    if value not in TYPES:
        head.draft.say(name, "refused", f"there is no deployment {value!r}; {did_you_mean(str(value), TYPES)}")
        return
    head.draft.put(name, f"services.{head.service}.type", head.type)
    if value != "none":
        if head.slurm:
            head.draft.put(name, f"services.{head.service}.node_pool", head.pool)
        implied = _IMPLIED.get(str(value))
        if implied and not head.own_command:
            head.put(name, "extra_args", implied)
        if head.type in ("nim", "docker_model"):
            head.put(name, "model", str(head.deployment.get("served_model_name")))


def image(head: Head, name: str, value: Any) -> None:
    """The server's image; one without a version is another one tomorrow."""
    if value:
        head.put(name, "image", value)
        if str(value).endswith(":latest"):
            head.draft.say(name, "warned", f"{value} is not pinned: another version may score otherwise")


def weights(head: Head, name: str, value: Any) -> None:
    """A checkpoint or a handle of the hub; the handle wins, as in the launcher's commands."""
    handle, path = head.deployment.get("hf_model_handle"), head.deployment.get("checkpoint_path")
    if path == "???":
        path = None
    is_path = name.endswith("checkpoint_path")
    if head.type == "docker_model":
        if is_path and path:
            head.put(name, "container_mounts", [f"{path}:/checkpoint:ro"])
        else:
            head.draft.say(name, "translated", "the command says what is loaded")
    elif not handle and not path:
        head.draft.say(name, "refused", "give checkpoint_path (a folder) or hf_model_handle (org/name)")
    elif is_path and handle and path:
        head.draft.say(name, "warned", "hf_model_handle is given as well, and is what is served")
    elif (handle if not is_path else path) is None:
        head.draft.say(name, "translated", "services.model.model")
    else:
        head.put(name, "model", value)


def parallel_size(head: Head, name: str, value: Any) -> None:
    """Tensor, pipeline and data parallel size; of a command of one's own they are its own business."""
    setting = name.rpartition(".")[2]
    if value is None or head.type == "docker_model" or (head.type == "trt_llm" and value == 1):
        head.draft.say(name, "translated", "the command of the server says it")
    else:
        head.put(name, setting, value)


def server_arguments(head: Head, name: str, value: Any) -> None:
    """Further arguments of the server."""
    words = shlex.split(str(value)) if isinstance(value, str) else ["--gpu-memory-utilization", str(value)]
    if not words or value is None or (head.own_command and not isinstance(value, str)):
        head.draft.say(name, "translated", "none")
    elif head.own_command and str(value) in head.own_command:
        head.draft.say(name, "translated", "part of the command")
    else:
        head.put(name, "extra_args", words)


def command(head: Head, name: str, value: Any) -> None:
    """A command of one's own makes the server a plain container."""
    if head.own_command:
        head.put(name, "command", ["bash", "-c", head.own_command.replace("${", "$${")])
    else:
        head.draft.say(name, "translated", "it follows from the other fields")


def server_setup(head: Head, name: str, value: Any) -> None:
    """Shell before the server's command: somebody else's code, so it must be trusted by name."""
    if not value:
        head.draft.say(name, "translated", "none")
    elif os.environ.get(TRUST) == "1" or head.dry:
        head.put(name, "setup_commands", [str(value).replace("${", "$${")])
        if os.environ.get(TRUST) != "1":
            head.draft.say(name, "warned", f"it runs only with {TRUST}=1 in the environment")
    else:
        head.draft.say(name, "refused", f"it is shell that the server runs; if you trust it: export {TRUST}=1")


def cache_path(head: Head, name: str, value: Any) -> None:
    """A folder for what the server downloads."""
    if value:
        head.put(name, "container_mounts", [f"{value}:/cache"])


def auxiliary(head: Head, name: str, value: Any) -> None:
    """Another server of the run, such as a judge, on nodes of its own."""
    service = name.partition(".")[2]
    own = as_dict(value)
    execution = {**head.execution, "deployment": {"n_tasks": own.get("n_tasks")}}
    execution |= {key: own.get(key) for key in ("num_nodes", "num_instances", "num_nodes_per_instance")}
    part = replace(head, execution=execution, deployment=own, service=service, pool=service)
    part.apply({"deployment": own}, shown=name)
    readiness(part, name, head.execution.get("endpoint_readiness_timeout"))
    pool = as_dict(head.draft.out.get("cluster")).get("node_pools", {}).get("gpu", {})
    if head.slurm:
        kept = {key: pool[key] for key in ("partition", "gres", "gpus_per_node") if key in pool}
        head.draft.put(name, f"cluster.node_pools.{service}", kept)


def endpoint(head: Head, name: str, value: Any) -> None:
    """The endpoint of somebody else's server."""
    setting = name.rpartition(".")[2]
    if head.kind == "none":
        values = {"url": ("url", value), "model_id": ("model", value), "api_key_name": ("api_key", f"${{{value}}}")}
        if value:
            head.draft.put(name, f"services.{head.service}.{values[setting][0]}", values[setting][1])
    elif setting == "api_key_name":
        head.draft.say(name, "warned", "a server that nel starts has a key of its own, so none is needed")
    elif value:
        head.draft.say(name, "refused", f"the {head.kind} deployment says where the model is; leave it out")


def endpoint_kind(head: Head, name: str, value: Any) -> None:
    """Chat or text completions, for all tasks."""
    head.draft.say(name, "translated", f"services.{head.service}.protocol")


def stream(head: Head, name: str, value: Any) -> None:
    """Whether the server is asked for streams."""
    if value:
        stage = {"name": "streaming", "config": {"request": True}}
        head.draft.put(name, f"services.{head.service}.proxy.interceptors", [stage])


SERVER_FIELDS: Final[dict[str, Handler]] = {
    one.__name__: one
    for one in (
        *(readiness, topology, balancer, server_mounts, deployment_type, image, weights, parallel_size),
        *(server_arguments, command, server_setup, cache_path, auxiliary, endpoint, endpoint_kind, stream),
    )
}
