"""Translate everything around the tasks: execution, model server or endpoint, environment and exports."""

import os
from typing import Any, ClassVar, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher.compose import group_defaults
from nemo_evaluator.launcher.table import (
    FieldRule,
    Outcome,
    TableSection,
    Translated,
    shell,
    table,
    variable,
)

TRUST: Final = "NEMO_EVALUATOR_TRUST_PRE_CMD"
_SPANS_NODES: Final = ("vllm", "vllm_ray", "sglang")
# Settings that a custom command already contains.
_IN_COMMAND: Final = (
    "extra_args",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
)


class Head(TableSection):
    """Translates the server or endpoint of a run, and the settings of the run around it.

    An auxiliary server, such as a judge, gets a ``Head`` of its own, with its own service and node pool. In the table
    of fields, a path that begins with ``server`` is for a server that nel starts, ``endpoint`` for an existing one, and
    ``model`` for both.

    Args:
        draft: The config of nel under construction, with the report.
        config: The launcher's config.
        dry: Nothing will be run, so untrusted shell text only causes a warning.
        service: Name of the service in nel's config.
        shown: The launcher's field of an auxiliary deployment; empty for the main one.
    """

    section: ClassVar[str] = "head"
    strict: ClassVar[tuple[str, ...]] = ("evaluation", "export.", "execution.mounts.")

    def __init__(
        self,
        draft: Translated,
        config: JsonDict,
        *,
        dry: bool,
        service: str = "model",
        shown: str = "",
    ) -> None:
        super().__init__(draft)
        self.config = config
        self.dry = dry
        self.service = service
        self.shown = shown
        self.execution = as_dict(config.get("execution"))
        self.deployment = as_dict(config.get("deployment"))
        self.slurm = self.execution.get("type") == "slurm"
        self.kind = str(self.deployment.get("type") or "none")
        self.pool = "gpu" if service == "model" else service
        command = self.deployment.get("command") or self.deployment.get("command_template")
        if command != self.deployment.get("base_command"):
            self.command = command
        else:
            self.command = None
        if self.command:
            self.type = "docker_model"
        else:
            self.type = str(table()["types"].get(self.kind, self.kind))
        # Environment variables of the evaluator, and of harness containers.
        self.variables: dict[str, str] = {}
        # Variables of single tasks that run without a container, with the field that sets each.
        self.task_variables: dict[str, tuple[str, str]] = {}
        self.groups = {
            "execution": group_defaults("execution", "slurm/default" if self.slurm else "local"),
            "deployment": group_defaults("deployment", self.kind),
        }

    def place(self, field: str) -> str:
        """Return the field as the user wrote it: an auxiliary deployment has its fields under its own name."""
        if self.shown and field.startswith("deployment."):
            return f"{self.shown}.{field.partition('.')[2]}"
        return field

    def default(self, field: str) -> Any:
        """Return the value that a packaged group has for a field."""
        group, _, key = field.partition(".")
        return self.groups.get(group, {}).get(key)

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply a row of the table; warn about settings of a tracker to which nothing is exported."""
        target = field.split(".")[1] if field.startswith("export.") else None
        auto_export = as_dict(self.execution.get("auto_export"))
        destinations = as_list(auto_export.get("destinations"))
        if target in table()["destinations"] and target not in destinations:
            reason = f"execution.auto_export.destinations does not name {target}; `nel export --dest {target}` sends it"
            self.say(field, "warned", reason)
        else:
            super().apply(field, rule, value)

    def put(self, field: str, path: str, value: Any) -> None:
        """Write a value, unless it belongs to a server that is not started, or is part of the server's command."""
        section, _, setting = path.partition(".")
        if section == "server" and self.kind == "none":
            outcome: Outcome = "translated" if self.default(field) == value else "warned"
            self.say(field, outcome, "no server is started")
        elif section == "server" and self.command and setting in _IN_COMMAND:
            self.say(field, "translated", "already part of the command")
        elif section == "endpoint" and self.kind != "none":
            self.no_endpoint(field, setting)
        elif field == "execution.mounts.evaluation" and not self.slurm:
            self.say(field, "translated", "benchmarks: solver.mounts, for tasks in containers")
        elif section == "cluster" and not self.slurm and setting not in ("type", "container_env"):
            self.say(field, "warned", "SLURM-only setting; ignored for local runs")
        else:
            if section in ("server", "endpoint", "model"):
                section = f"services.{self.service}"
            path = f"{section}.{setting}".replace("node_pools.gpu", f"node_pools.{self.pool}")
            super().put(field, path, value)

    def no_endpoint(self, field: str, setting: str) -> None:
        """Report that an endpoint's setting does not apply to a server that nel starts."""
        if setting == "api_key":
            self.say(field, "warned", "not needed: a server that nel starts has its own key")
        else:
            self.say(
                field,
                "refused",
                f"the {self.kind} deployment already defines the model's endpoint; leave it out",
            )

    def _mode(self, field: str, value: Any) -> None:
        """Translate the execution mode: ``parallel`` runs all benchmarks at once."""
        tasks = as_list(as_dict(self.config.get("evaluation")).get("tasks"))
        if value == "parallel" and len(tasks) > 1:
            self.put(field, "suite.parallel_benchmarks", len(tasks))
        else:
            self.say(field, "translated", "benchmarks run one after the other")

    def _readiness(self, field: str, value: Any) -> None:
        """Set the startup timeout; on SLURM the default is the walltime of the job."""
        walltime = seconds_of(str(self.execution.get("walltime") or ""))
        self.put(field, "server.startup_timeout", value if value is not None else walltime or 3600)

    def _topology(self, field: str, value: Any) -> None:
        """Set the number of servers and of nodes per server."""
        try:
            servers, nodes_each = _shape(self.execution, self.deployment)
        except ValueError as error:
            self.say(field, "refused", str(error))
            return
        if self.kind == "none" and servers * nodes_each > 1:
            self.put(field, "cluster.node_pools.gpu.nodes", servers * nodes_each)
        elif nodes_each == servers == 1:
            self.say(field, "translated", "one node")
        elif nodes_each > 1 and self.kind not in _SPANS_NODES:
            self.say(
                field,
                "refused",
                f"a {self.kind} server runs on one node; use num_instances, or vllm",
            )
        else:
            for setting_name, number in (
                ("num_nodes_per_instance", nodes_each),
                ("num_instances", servers),
            ):
                if number > 1:
                    self.put(field, f"server.{setting_name}", number)

    def variables_of(self, field: str, value: Any) -> dict[str, str]:
        """Translate the variables of an ``env_vars`` field; wrong and outdated forms are reported.

        Args:
            field: The launcher's field.
            value: Its value: the variables by name.
        """
        variables: dict[str, str] = {}
        for key, text in as_dict(value).items():
            try:
                translated_value, note = variable(key, text)
            except ValueError as error:
                self.say(f"{field}.{key}", "refused", str(error))
                continue
            if note:
                self.say(f"{field}.{key}", "warned", note)
            variables |= {key: translated_value} if translated_value is not None else {}
        return variables

    def _variables(self, field: str, value: Any) -> None:
        """Set variables of the server, of the evaluator (which also exports), or of both."""
        variables = self.variables_of(field, value)
        of_server = "deployment" in field
        if variables and not of_server:
            self.variables |= variables
            self.put(field, "cluster.container_env", variables)
        if variables and (of_server or (field == "env_vars" and self.kind != "none")):
            self.put(field, "server.extra_env", variables)

    def _deployment_type(self, field: str, value: Any) -> None:
        """Set the type of the service, with the arguments and the node pool that the type implies."""
        self.put(field, "model.type", self.type)
        if self.slurm and value != "none":
            self.put(field, "server.node_pool", self.pool)
        implied = table()["implied"].get(value)
        if implied:
            self.put(field, "server.extra_args", list(implied))
        if self.kind != "none" and not self.deployment.get("image"):
            self._without_image()
        if self.type in ("nim", "docker_model"):
            self.put(field, "server.model", str(self.deployment.get("served_model_name")))

    def _without_image(self) -> None:
        """Report a deployment without an image: some servers cannot run without one."""
        if self.type in ("nim", "docker_model"):
            self.say(
                "deployment.image", "refused", "is missing: this server runs in a container only"
            )
        else:
            reason = "without an image, the server is a process of its machine or node"
            self.say("deployment.image", "warned", reason)

    def _weights(self, field: str, value: Any) -> None:
        """Set the model: a checkpoint folder or a hub name; as in the launcher, the hub name wins."""
        handle = self.deployment.get("hf_model_handle")
        path = self.deployment.get("checkpoint_path")
        if not handle and not path and self.type != "docker_model":
            self.say(
                field, "refused", "give checkpoint_path (a folder) or hf_model_handle (org/name)"
            )
        elif not value or value == "???":
            self.say(field, "translated", "needs nothing")
        elif self.type == "docker_model" and value == path:
            self.put(field, "server.container_mounts", [_checkpoint_mount(value)])
        elif self.type == "docker_model" or (handle and value == path):
            self.say(
                field,
                "warned",
                "something else says what is served: the command, or hf_model_handle",
            )
        else:
            self.put(field, "server.model", value)
            if value == path and str(path).startswith("/") and self.deployment.get("image"):
                # Other settings, such as a chat template, may name the launcher's path.
                self.put(field, "server.container_mounts", [_checkpoint_mount(value)])

    def _command(self, field: str, value: Any) -> None:
        """Set the server's own command, if the deployment has one."""
        if self.command:
            self.put(field, "server.command", ["bash", "-c", shell(str(self.command))])

    def _server_setup(self, field: str, value: Any) -> None:
        """Set shell text to run before the server starts, if the user trusts it."""
        if value and self.trusted(self, field):
            self.put(field, "server.setup_commands", [shell(str(value))])

    def trusted(self, scope: TableSection, field: str) -> bool:
        """Check whether shell text from the config may run: the user must trust it through an environment variable.

        Without that, the field is refused; in a dry run it is only warned about.

        Args:
            scope: The section to which the field belongs.
            field: The launcher's field.
        """
        is_trusted = os.environ.get(TRUST) == "1"
        if is_trusted:
            return is_trusted
        reason = f"it is shell that runs in the container; if you trust it: export {TRUST}=1"
        scope.say(field, "warned" if self.dry else "refused", reason)
        return self.dry

    def _auxiliary(self, field: str, value: Any) -> None:
        """Translate an auxiliary server, such as a judge, which runs on nodes of its own."""
        deployment = as_dict(value)
        service = field.partition(".")[2]
        execution = {**self.execution, "deployment": {"n_tasks": deployment.get("n_tasks")}}
        for key in ("num_nodes", "num_instances", "num_nodes_per_instance"):
            execution[key] = deployment.get(key)
        auxiliary = Head(
            self.draft,
            {"execution": execution, "deployment": deployment},
            dry=self.dry,
            service=service,
            shown=field,
        )
        auxiliary.translate({"deployment": deployment})
        auxiliary._readiness(field, self.execution.get("endpoint_readiness_timeout"))
        for key in ("partition", "gres", "gpus_per_node") if self.slurm else ():
            setting = self.execution.get(key)
            if setting is not None:
                auxiliary.put(field, f"cluster.node_pools.gpu.{key}", setting)

    def _destinations(self, field: str, value: Any) -> None:
        """Set the settings of each export destination."""
        for target in [value] if isinstance(value, str) else as_list(value):
            if target not in (destinations := table()["destinations"]):
                self.say(
                    field,
                    "refused",
                    f"nothing is exported to {target!r}; {did_you_mean(target, destinations)}",
                )
            for path, setting in destinations.get(target, {}).items():
                self.put(field, path, setting)


def _checkpoint_mount(path: str) -> str:
    """Mount a checkpoint where the launcher mounts it."""
    return f"{path}:/checkpoint:ro"


def _shape(execution: JsonDict, deployment: JsonDict) -> tuple[int, int]:
    """Return the number of servers and of nodes per server, from any version of the launcher's settings.

    Raises:
        ValueError: If the numbers contradict each other.
    """
    servers = int(execution.get("num_instances") or 1)
    nodes_each = int(execution.get("num_nodes_per_instance") or 0)
    nodes = int(execution.get("num_nodes") or 1)
    tasks = as_dict(execution.get("deployment")).get("n_tasks")
    if deployment.get("multiple_instances"):
        return int(tasks or nodes), 1
    if not nodes_each and nodes > 1 and nodes % servers:
        raise ValueError(f"{nodes} nodes cannot be divided among {servers} instances")
    # `num_nodes` is the number of all nodes; `num_instances` alone means servers of one node.
    nodes_each = nodes_each or max(1, nodes // servers)
    if nodes not in (1, nodes_each * servers):
        raise ValueError(
            f"num_nodes is {nodes}, but {servers} instances of {nodes_each} nodes are {nodes_each * servers}"
        )
    if tasks is not None and int(tasks) not in (1, nodes, servers, servers * nodes_each):
        raise ValueError(f"n_tasks is {tasks}: nel starts one task on every node of a server")
    return servers, nodes_each
