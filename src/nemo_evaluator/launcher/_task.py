"""Translate one task of the launcher to a benchmark of nel."""

from typing import Any, Final

from nemo_evaluator.config.fields import protocol_of_url
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher._adapter import Adapter
from nemo_evaluator.launcher._parameters import TaskParameters
from nemo_evaluator.launcher.routes import needs_of
from nemo_evaluator.launcher.table import put_in, shell, table

_CODE_IMAGE: Final = "python:3.12-slim"
_HARNESS: Final = 120 * 3600


class TaskScope(TaskParameters):
    """Translates one task: its parameters, and what it needs around them."""

    def refuses_unknown(self, field: str) -> bool:
        """Return whether the launcher or its harness stops at an unknown field: one of the task or of ``config``."""
        return field != "config.extra" and not field.startswith(
            ("config.params.", "target.", "metadata")
        )

    def surround(self, endpoint: str) -> None:
        """Set protocol, arguments, sandbox, mounts and environment that the task needs, whatever its config says.

        Args:
            endpoint: The type of endpoint that the task is written for, such as ``chat``.
        """
        self._set_protocol(endpoint)
        if self.route.params:
            self.bench["params"] = dict(self.route.params)
        needs_code = self.route.kind == "built-in" and "sandbox" in needs_of(self.task)
        if self.head.slurm and (self.contained or needs_code):
            self.bench["sandbox"] = {"type": "slurm", "node_pool": self.head.pool}
        elif needs_code:
            self.bench["sandbox"] = {"type": "docker"}
        if needs_code:
            self.bench["sandbox"]["image"] = _CODE_IMAGE
        if self.contained:
            self._set_up_container(endpoint)

    def _set_protocol(self, endpoint: str) -> None:
        """Set the API protocol; report an endpoint type that nel lacks, or that contradicts the URL."""
        protocol = table()["protocols"].get(endpoint)
        url = self.draft.config["services"]["model"].get("url")
        url_protocol = protocol_of_url(str(url)) if url else None
        if protocol is None:
            reason = (
                f"{self.task.full_name} needs a {endpoint} endpoint, which nel does not support"
            )
            self.say("name", "refused", reason)
        if url_protocol is not None and url_protocol != protocol:
            reason = (
                f"the task needs a {endpoint} endpoint, but the URL path implies {url_protocol}"
            )
            self.say("name", "warned", reason)
        self.service["protocol"] = url_protocol or protocol or "chat_completions"

    def _set_up_container(self, endpoint: str) -> None:
        """Set timeout, mounts, variables and endpoint type of a task that runs in a container."""
        head = self.head
        solver = self.bench["solver"]
        mounts = as_dict(as_dict(head.execution.get("mounts")).get("evaluation"))
        # The whole harness is one step; the launcher limits it only by the walltime.
        walltime = None
        if head.slurm:
            walltime = seconds_of(str(head.execution.get("walltime") or ""))
        self.bench["timeout"] = walltime or _HARNESS
        if mounts:
            solver["mounts"] = dict(mounts)
        if head.variables:
            solver["env_vars"] = dict(head.variables)
        if endpoint != "chat":
            solver["endpoint_type"] = endpoint

    def _shell(self, field: str, value: Any) -> None:
        """Pass shell text to the harness's container, if the user trusts it."""
        if value and not self.contained:
            reason = "only the harness's own container has it; --containers runs the task there, or run it yourself"
            self.say(field, "refused", reason)
        elif value and self.head.trusted(self, field):
            self.put(field, f"solver.{field}", shell(str(value)))

    def _task_env(self, field: str, value: Any) -> None:
        """Set the task's variables: in its container, or for all tasks if it has none."""
        variables = self.head.variables_of(self.place(field), value)
        if self.contained:
            self.put(field, "solver.env_vars", variables)
        elif variables and self._agrees(field, variables):
            self.head.put(self.place(field), "cluster.container_env", variables)

    def _agrees(self, field: str, variables: dict[str, str]) -> bool:
        """Check that no other task sets the same variables to other values: tasks without a container share them."""
        head = self.head
        agrees = True
        for name, value in variables.items():
            place = f"{self.place(field)}.{name}"
            other_value, other_place = head.task_variables.setdefault(name, (value, place))
            if other_value != value:
                reason = f"{other_place} has another value, and both tasks run in one process; run one alone (-t)"
                self.draft.say(place, "refused", reason)
                agrees = False
            elif head.variables.get(name, value) != value:
                self.draft.say(
                    place, "warned", "all tasks that run without a container get this value"
                )
        return agrees

    def _adapter(self, field: str, value: Any) -> None:
        """Translate ``adapter_config`` to interceptors and the response cache of the service."""
        if self.contained:
            self.put(field, "solver.adapter_config", as_dict(value))
            return
        adapter = Adapter(self.draft, as_dict(value), self.place(field))
        if adapter.cache:
            self.service["cache"] = adapter.cache
        if adapter.interceptors:
            put_in(self.service, "interceptors", adapter.interceptors)
            self.say(field, "translated", "services.model.proxy.interceptors")
