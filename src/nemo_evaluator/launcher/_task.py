"""Translate one task of the launcher to a benchmark of nel, and its ``adapter_config`` to interceptors."""

import math
import shlex
from typing import Any, ClassVar, Final

from nemo_evaluator.config.fields import protocol_of_url
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_names, environment_class
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.table import FieldRule, TableSection, Translated, put_in, shell, table

_CONTAINER_ONLY: Final = (
    "only the harness knows it; --containers runs the task in the harness's container"
)
# Of a task, or of the evaluation for all tasks that have none of their own.
_SHELL: Final = ("pre_cmd", "post_cmd")
_CODE_IMAGE: Final = "python:3.12-slim"
# Our defaults: a request that may take longer needs more.
_STEP = 1800
_FIRST_BYTE = 600
_HARNESS: Final = 120 * 3600
# The order of the launcher's chain.
_ORDER: Final = (
    "system_message",
    "payload_modifier",
    "logging",
    "response_stats",
    "reasoning",
    "progress_tracking",
)
_LOGGED: Final = 2


class TaskScope(TableSection):
    """A benchmark in the making (``bench``), and the way in which it asks the model (``service``). ``index`` is its
    place among those that run, ``number`` that in the config; ``own`` is the task's entry, ``shared`` the evaluation
    around it; ``contained``: the harness itself runs."""

    section: ClassVar[str] = "task"

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
        """The field as the user knows it: of the task, of the evaluation, or from the catalogue."""
        if field.partition(".")[0] in self.own:
            return f"evaluation.tasks[{self.number}].{field}"
        if field in _SHELL:
            return f"evaluation.{field}"
        for place, tree in self.trees.items():
            value: Any = tree.get("nemo_evaluator_config")
            for key in field.split("."):
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                return f"{place}.nemo_evaluator_config.{field}"
        return f"{self.task.full_name}: {field.rpartition('.')[2]}"

    def put(self, field: str, path: str, value: Any) -> None:
        """Set a key of the benchmark, of its service (``service.``), or of a skills:// benchmark (``skills.``)."""
        place, _, setting = path.partition(".")
        is_endpoint = place == "service" and setting in ("url", "model", "api_key")
        if is_endpoint and self.head.kind != "none":
            self.head.no_endpoint(self.place(field), setting)
        elif place == "service":
            put_in(self.service, setting, value)
            self.say(field, "translated", f"services.model.{setting}")
        elif place == "skills" and not str(self.task.nel).startswith("skills://"):
            self.say(field, "refused", _CONTAINER_ONLY)
        else:
            path = path.replace("skills.", "params.")
            put_in(self.bench, path, value)
            self.say(field, "translated", f"benchmarks[{self.index}].{path}")

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply a row of the table; a harness in its container gets its parameters unchanged."""
        inner = field.removeprefix("config.params.")
        if self.contained and inner != field and value is not None:
            if inner in ("extra.num_repeats", "extra.n_samples"):
                put_in(self.bench, "repeats", value)
            self.put(field, f"params.{inner}", value)
        elif self.contained and field == "dataset_dir" and value:
            inside = self.own.get("dataset_mount_path") or "/datasets"
            self.put(field, "solver.mounts", {str(value): inside})
            put_in(self.bench, "solver.env_vars", {"NEMO_EVALUATOR_DATASET_DIR": inside})
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
        protocol = table()["protocols"].get(endpoint)
        url = self.draft.config["services"]["model"].get("url")
        url_protocol = protocol_of_url(str(url)) if url else None
        if protocol is None:
            why = f"{self.task.full_name} needs a {endpoint} endpoint, which nel does not support"
            self.say("name", "refused", why)
        if url_protocol is not None and url_protocol != protocol:
            why = f"the task needs a {endpoint} endpoint, but the URL path implies {url_protocol}"
            self.say("name", "warned", why)
        self.service["protocol"] = url_protocol or protocol or "chat_completions"

    def _set_up_container(self, endpoint: str) -> None:
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
        """Take the first N problems, as the launcher's harnesses do, or that share of all problems."""
        if value is None:
            return
        if value < 1 or field.endswith("downsampling_ratio"):
            nel = str(self.task.nel)
            if nel in builtin_names():
                info = getattr(environment_class(nel), "definition", None)
            else:
                info = None
            if info is None or not info.info.size:
                self.say(
                    field,
                    "refused",
                    f"the number of problems in {nel} is unknown; give a whole number",
                )
                return
            value = math.ceil(info.info.size * value)
        self.put(field, "max_problems", int(value))
        self.bench["shuffle_seed"] = None

    def _skills_arguments(self, field: str, value: Any) -> None:
        """``++key=value`` words: sampling is ours too; another prompt is not."""
        known = table()["arguments"]
        for word in shlex.split(str(value or "")):
            key, _, text = word.lstrip("+").partition("=")
            if key in known and text != "null":
                self.put(field, known[key], float(text))
            elif key in (*known, "prompt_config"):
                why = f"prompt and sampling are nel's own; {_CONTAINER_ONLY}"
                self.say(field, "warned", why)
            else:
                self.say(field, "refused", f"{key}: {_CONTAINER_ONLY}")

    def _judge(self, field: str, value: Any) -> None:
        if "judge" in self.task.needs:
            self.judge = as_dict(value)
            self.put(field, "scoring.include_defaults", False)
        else:
            self.say(field, "warned", f"{self.task.nel} is scored without a judge")

    def _shell(self, field: str, value: Any) -> None:
        if value and not self.contained:
            why = "only the harness's own container has it; --containers runs the task there, or run it yourself"
            self.say(field, "refused", why)
        elif value and self.head.trusted(self, field):
            self.put(field, f"solver.{field}", shell(str(value)))

    def _task_env(self, field: str, value: Any) -> None:
        variables = self.head.variables_of(self.place(field), value)
        if self.contained:
            self.put(field, "solver.env_vars", variables)
        elif variables:
            self.head.put(self.place(field), "cluster.container_env", variables)

    def _adapter(self, field: str, value: Any) -> None:
        if self.contained:
            self.put(field, "solver.adapter_config", as_dict(value))
            return
        adapter = Adapter(self.draft, as_dict(value), self.place(field))
        if adapter.cache:
            self.service["cache"] = adapter.cache
        if adapter.interceptors:
            put_in(self.service, "interceptors", adapter.interceptors)
            self.say(field, "translated", "services.model.proxy.interceptors")


class Adapter(TableSection):
    """The interceptors of an ``adapter_config``; its settings of the run itself go into the draft."""

    section: ClassVar[str] = "adapter"

    def __init__(self, draft: Translated, fields: JsonDict, shown: str) -> None:
        super().__init__(draft)
        self.fields = {key: value for key, value in fields.items() if value is not None}
        self.shown = shown
        if self.fields.pop("use_reasoning", False):
            self.fields["process_reasoning_traces"] = True
            self.say("use_reasoning", "translated", "process_reasoning_traces")
        self.stages: dict[str, JsonDict] = {}
        self.listed: list[JsonDict] = []
        self.cache: JsonDict = {}
        self.translate(self.fields)
        self._logging()

    def place(self, field: str) -> str:
        return f"{self.shown}.{field}"

    @property
    def interceptors(self) -> list[JsonDict]:
        names = [name for name in (*_ORDER, "raise_client_errors") if name in self.stages]
        return self.listed or [
            {"name": name} | ({"config": c} if (c := self.stages[name]) else {}) for name in names
        ]

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """A setting of a stage, or the switch of one."""
        if rule.stage is None or value in (rule.fine or ()):
            super().apply(field, rule, value)
            return
        switch = rule.switch or (None if rule.setting else field)
        if switch is not None and not self.fields.get(switch):
            off = rule.setting is not None
            self.say(
                field,
                "warned" if off else "translated",
                f"{switch} is off" if off else "needs nothing",
            )
            return
        settings = self.stages.setdefault(rule.stage, {})
        if rule.setting is not None:
            settings[rule.setting] = value
        self.say(field, "translated", f"proxy.interceptors: {rule.stage}")

    def _system_prompt(self, field: str, value: Any) -> None:
        if value and not self.fields.get("custom_system_prompt"):
            self.say(field, "refused", "custom_system_prompt is what it would use; give both")
        else:
            self.say(
                field,
                "translated",
                "proxy.interceptors: system_message" if value else "needs nothing",
            )

    def _cache_dir(self, field: str, value: Any) -> None:
        if self.fields.get("use_caching", True):
            self.cache = {"mode": "write", "dir": str(value)}
            self.say(field, "translated", "proxy.cache.dir")
        else:
            self.say(field, "warned", "use_caching is off")

    def _logging(self) -> None:
        """One stage logs requests, responses and failures; the launcher logs two of each where no number is given."""
        wanted: dict[str, bool] = {}
        for key in ("request", "response"):
            wanted[key] = bool(self.fields.get(f"use_{key}_logging"))
        failed = bool(self.fields.get("log_failed_requests"))
        if failed or any(wanted.values()):
            most: dict[str, Any | int] = {}
            for key, on in wanted.items():
                if on:
                    most[key] = self.fields.get(f"max_logged_{key}s", _LOGGED)
                else:
                    most[key] = 0
            self.stages["logging"] = {f"max_{key}s": number for key, number in most.items()} | {
                "log_failed": failed
            }

    def _explicit_list(self, field: str, value: Any) -> None:
        """An explicit list takes the place of the whole chain; the two are not mixed."""
        known = table()["interceptors"]
        other = [name for name in self.fields if name != "interceptors"]
        if other:
            self.say(
                field, "refused", f"{other[0]} and an explicit list exclude each other; keep one"
            )
            return
        for number, entry in enumerate(as_list(value)):
            name = str(as_dict(entry).get("name"))
            settings = as_dict(as_dict(entry).get("config"))
            if as_dict(entry).get("enabled") is False:
                continue
            if name not in known:
                hint = did_you_mean(name, known)
                self.say(
                    f"{field}[{number}]", "refused", f"there is no interceptor {name!r}; {hint}"
                )
            elif ours := known[name].get("name"):
                renamed = known[name].get("settings", {})
                config = {renamed.get(key, key): setting for key, setting in settings.items()}
                self.listed.append({"name": ours} | ({"config": config} if config else {}))
                self.say(f"{field}[{number}]", "translated", f"proxy.interceptors: {ours}")
