"""Translate one task of the launcher to a benchmark of nel."""

import math
import shlex
from typing import Any, ClassVar, Final

from nemo_evaluator.config.fields import protocol_of_url
from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_names, environment_class
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher._adapter import Adapter
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.table import FieldRule, TableSection, put_in, shell, table

_CONTAINER_ONLY: Final = (
    "only the harness knows it; --containers runs the task in the harness's container"
)
# Shell hooks of a task, or of the evaluation for all tasks that have none of their own.
_SHELL: Final = ("pre_cmd", "post_cmd")
_CODE_IMAGE: Final = "python:3.12-slim"
# nel's default timeouts in seconds; they are raised if a request may take longer.
_STEP = 1800
_FIRST_BYTE = 600
_HARNESS: Final = 120 * 3600


class TaskScope(TableSection):
    """Translates one task: to a benchmark (``bench``), and to the request settings that it needs (``service``).

    Args:
        head: The translation of the run around the task.
        index: Index among the tasks that will run.
        number: Index in the launcher's config.
        task: The task's entry in the catalogue.
        own: The task's entry in the config.
        shared: The ``evaluation`` section, which holds settings for all tasks.
        contained: Run the task in the container of its harness.
    """

    section: ClassVar[str] = "task"

    def refuses_unknown(self, field: str) -> bool:
        """Return whether the launcher or its harness stops at an unknown field: one of the task or of ``config``."""
        return field != "config.extra" and not field.startswith(
            ("config.params.", "target.", "metadata")
        )

    def __init__(
        self,
        head: Head,
        index: int,
        number: int,
        task: Task,
        own: JsonDict,
        shared: JsonDict,
        *,
        contained: bool,
    ) -> None:
        super().__init__(head.draft)
        self.index = index
        self.head = head
        self.number = number
        self.task = task
        self.own = own
        self.contained = contained
        self.trees = {f"evaluation.tasks[{number}]": own, "evaluation": shared}
        self.bench: JsonDict = {
            "name": task.container if contained else task.nel,
            "id": f"{task.name.replace('://', '_').replace('/', '_')}.{number}",
            "solver": {"type": "container" if contained else "simple", "service": "model"},
        }
        self.shell = {key: shared[key] for key in _SHELL if shared.get(key)}
        self.service: JsonDict = {}
        self.judge: JsonDict | None = None

    def place(self, field: str) -> str:
        """Return the field as the user knows it: of the task, of the evaluation, or from the catalogue."""
        if field.partition(".")[0] in self.own:
            return f"evaluation.tasks[{self.number}].{field}"
        if field in _SHELL:
            return f"evaluation.{field}"
        for place, settings in self.trees.items():
            value: Any = settings.get("nemo_evaluator_config")
            for key in field.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                return f"{place}.nemo_evaluator_config.{field}"
        return f"{self.task.full_name}: {field.rpartition('.')[2]}"

    def put(self, field: str, path: str, value: Any) -> None:
        """Set a value of the benchmark, or of its service.

        Args:
            field: The launcher's field.
            path: Where to write: ``service.`` means the service, ``skills.`` only skills:// benchmarks.
            value: The value.
        """
        section, _, setting = path.partition(".")
        is_endpoint = section == "service" and setting in ("url", "model", "api_key")
        if is_endpoint and self.head.kind != "none":
            self.head.no_endpoint(self.place(field), setting)
        elif section == "service":
            put_in(self.service, setting, value)
            self.say(field, "translated", f"services.model.{setting}")
        elif section == "skills" and not str(self.task.nel).startswith("skills://"):
            self.say(field, "refused", _CONTAINER_ONLY)
        else:
            path = path.replace("skills.", "params.")
            put_in(self.bench, path, value)
            self.say(field, "translated", f"benchmarks[{self.index}].{path}")

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply a row of the table; a harness in its container gets its parameters unchanged."""
        parameter = field.removeprefix("config.params.")
        if self.contained and parameter != field and value is not None:
            if parameter in ("extra.num_repeats", "extra.n_samples"):
                put_in(self.bench, "repeats", value)
            self.put(field, f"params.{parameter}", value)
        elif self.contained and field == "dataset_dir" and value:
            mount_path = self.own.get("dataset_mount_path") or "/datasets"
            self.put(field, "solver.mounts", {str(value): mount_path})
            put_in(self.bench, "solver.env_vars", {"NEMO_EVALUATOR_DATASET_DIR": mount_path})
        else:
            super().apply(field, rule, value)

    def surround(self, endpoint: str) -> None:
        """Set protocol, arguments, sandbox, mounts and environment that the task needs, whatever its config says.

        Args:
            endpoint: The type of endpoint that the task is written for, such as ``chat``.
        """
        self._set_protocol(endpoint)
        if not self.contained and self.task.params:
            self.bench["params"] = dict(self.task.params)
        needs_code = "sandbox" in self.task.needs and not self.contained
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

    def _request_timeout(self, field: str, value: Any) -> None:
        """Set the service's request timeout; a step must not time out before its request."""
        self.put(field, "service.timeouts.total", value)
        if value > _FIRST_BYTE:
            put_in(self.service, "timeouts.first_byte", value)
        if value > _STEP:
            self.bench["timeout"] = value

    def _limit(self, field: str, value: Any) -> None:
        """Set the number of problems: the first N, as in the launcher's harnesses, or a share of all."""
        if value is None:
            return
        if value < 1 or field.endswith("downsampling_ratio"):
            size = _benchmark_size(str(self.task.nel))
            if size is None:
                reason = (
                    f"the number of problems in {self.task.nel} is unknown; give a whole number"
                )
                self.say(field, "refused", reason)
                return
            value = math.ceil(size * value)
        self.put(field, "max_problems", int(value))
        self.bench["shuffle_seed"] = None

    def _skills_arguments(self, field: str, value: Any) -> None:
        """Translate ``++key=value`` arguments: sampling settings have an equivalent, other prompts do not."""
        paths_by_argument = table()["arguments"]
        for argument in shlex.split(str(value or "")):
            key, _, text = argument.lstrip("+").partition("=")
            if key in paths_by_argument and text != "null":
                self.put(field, paths_by_argument[key], float(text))
            elif key in (*paths_by_argument, "prompt_config"):
                reason = f"prompt and sampling are nel's own; {_CONTAINER_ONLY}"
                self.say(field, "warned", reason)
            else:
                self.say(field, "refused", f"{key}: {_CONTAINER_ONLY}")

    def _judge(self, field: str, value: Any) -> None:
        """Keep the judge's settings if the benchmark needs a judge."""
        if "judge" in self.task.needs:
            self.judge = as_dict(value)
            self.put(field, "scoring.include_defaults", False)
        else:
            self.say(field, "warned", f"{self.task.nel} is scored without a judge")

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


def _benchmark_size(name: str) -> int | None:
    """Return the number of problems of a built-in benchmark; None when it is unknown."""
    if name not in builtin_names():
        return None
    definition = getattr(environment_class(name), "definition", None)
    if definition is None:
        return None
    return definition.info.size or None
