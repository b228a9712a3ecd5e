"""Translate one task of the launcher to a benchmark of nel, and its ``adapter_config`` to interceptors."""

from typing import Any, ClassVar, Final

from nemo_evaluator.config.fields import protocol_of_url
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.slurm import seconds_of
from nemo_evaluator.launcher._parameters import TaskParameters
from nemo_evaluator.launcher.routes import needs_of
from nemo_evaluator.launcher.table import FieldRule, TableSection, Translated, put_in, shell, table

_CODE_IMAGE: Final = "python:3.12-slim"
_HARNESS: Final = 120 * 3600
# The order of the launcher's interceptors.
_ORDER: Final = (
    "system_message",
    "payload_modifier",
    "logging",
    "response_stats",
    "reasoning",
    "progress_tracking",
)
_LOGGED: Final = 2


class TaskScope(TaskParameters):
    """Translates one task: its parameters, and what it needs around them."""

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
        if self.route.kind == "lm-eval" and self.service["protocol"] == "chat_completions":
            put_in(self.bench, "params.chat", True)
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
        elif variables:
            self.head.put(self.place(field), "cluster.container_env", variables)

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


class Adapter(TableSection):
    """Translates an ``adapter_config`` to interceptors; its settings of the run itself go into the draft.

    Args:
        draft: The config of nel under construction, with the report.
        fields: The fields of ``adapter_config``.
        shown: The field of ``adapter_config`` as the user knows it.
    """

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
        """Return the field as the user knows it."""
        return f"{self.shown}.{field}"

    @property
    def interceptors(self) -> list[JsonDict]:
        """The interceptors: the explicit list if there is one, else those that the settings switch on."""
        if self.listed:
            return self.listed
        entries: list[JsonDict] = []
        for name in (*_ORDER, "raise_client_errors"):
            if name in self.stages:
                entries.append(_interceptor(name, self.stages[name]))
        return entries

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply a row of the table: a setting of an interceptor, or the switch that turns one on."""
        if rule.stage is None or value in (rule.fine or ()):
            super().apply(field, rule, value)
            return
        switch = rule.switch
        if switch is None and rule.setting is None:
            # The field itself turns the interceptor on.
            switch = field
        if switch is not None and not self.fields.get(switch):
            if rule.setting is None:
                self.say(field, "translated", "needs nothing")
            else:
                self.say(field, "warned", f"{switch} is off")
            return
        settings = self.stages.setdefault(rule.stage, {})
        if rule.setting is not None:
            settings[rule.setting] = value
        self.say(field, "translated", f"proxy.interceptors: {rule.stage}")

    def _system_prompt(self, field: str, value: Any) -> None:
        """Report the switch of the system prompt; without a prompt it is refused."""
        if not value:
            self.say(field, "translated", "needs nothing")
        elif self.fields.get("custom_system_prompt"):
            self.say(field, "translated", "proxy.interceptors: system_message")
        else:
            self.say(field, "refused", "custom_system_prompt is what it would use; give both")

    def _cache_dir(self, field: str, value: Any) -> None:
        """Set the folder of the response cache, unless caching is off."""
        if self.fields.get("use_caching", True):
            self.cache = {"mode": "write", "dir": str(value)}
            self.say(field, "translated", "proxy.cache.dir")
        else:
            self.say(field, "warned", "use_caching is off")

    def _logging(self) -> None:
        """Add the logging interceptor; like the launcher, it logs two requests and responses by default."""
        logs_failures = bool(self.fields.get("log_failed_requests"))
        logs_anything = logs_failures
        settings: JsonDict = {}
        for kind in ("request", "response"):
            limit = 0
            if self.fields.get(f"use_{kind}_logging"):
                logs_anything = True
                limit = self.fields.get(f"max_logged_{kind}s", _LOGGED)
            settings[f"max_{kind}s"] = limit
        settings["log_failed"] = logs_failures
        if logs_anything:
            self.stages["logging"] = settings

    def _explicit_list(self, field: str, value: Any) -> None:
        """Translate an explicit list of interceptors; it cannot be combined with other fields."""
        other_fields = [name for name in self.fields if name != "interceptors"]
        if other_fields:
            reason = f"{other_fields[0]} and an explicit list exclude each other; keep one"
            self.say(field, "refused", reason)
            return
        for index, item in enumerate(as_list(value)):
            entry = as_dict(item)
            if entry.get("enabled") is not False:
                self._list_interceptor(f"{field}[{index}]", entry)

    def _list_interceptor(self, field: str, entry: JsonDict) -> None:
        """Translate one entry of an explicit list; an interceptor that nel does not need is left out."""
        known_interceptors = table()["interceptors"]
        name = str(entry.get("name"))
        if name not in known_interceptors:
            hint = did_you_mean(name, known_interceptors)
            self.say(field, "refused", f"there is no interceptor {name!r}; {hint}")
            return
        nel_name = known_interceptors[name].get("name")
        if not nel_name:
            return
        new_keys = known_interceptors[name].get("settings", {})
        config: JsonDict = {}
        for key, setting in as_dict(entry.get("config")).items():
            config[new_keys.get(key, key)] = setting
        self.listed.append(_interceptor(nel_name, config))
        self.say(field, "translated", f"proxy.interceptors: {nel_name}")


def _interceptor(name: str, config: JsonDict) -> JsonDict:
    """The entry of an interceptor in nel's config; without settings it has only a name."""
    if config:
        return {"name": name, "config": config}
    return {"name": name}
