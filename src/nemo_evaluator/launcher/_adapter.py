"""Translate the ``adapter_config`` of the launcher to interceptors of nel."""

from typing import Any, ClassVar, Final

from nemo_evaluator.config.groups import INTERCEPTORS
from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import FieldRule, TableSection, Translated, table

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
_CONTAINER_RESULTS: Final = "/results"
_CACHE_IN_CONTAINER: Final = (
    "it is a folder of the harness's container; nel keeps finished answers in the folder of the run"
)


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
        if str(value).startswith(_CONTAINER_RESULTS):
            self.say(field, "warned", _CACHE_IN_CONTAINER)
        elif self.fields.get("use_caching", True):
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
        known_settings = INTERCEPTORS.schema(nel_name).model_fields
        config: JsonDict = {}
        for key, setting in as_dict(entry.get("config")).items():
            new_key = new_keys.get(key, key)
            if key == "reuse_cached_responses":
                config["mode"] = "write" if setting else "off"
            elif key == "cache_dir" and str(setting).startswith(_CONTAINER_RESULTS):
                self.say(f"{field}.config.{key}", "warned", _CACHE_IN_CONTAINER)
            elif new_key in known_settings:
                config[new_key] = setting
            else:
                reason = f"nel's {nel_name} has no such setting; it has no effect"
                self.say(f"{field}.config.{key}", "warned", reason)
        self.listed.append(_interceptor(nel_name, config))
        self.say(field, "translated", f"proxy.interceptors: {nel_name}")


def _interceptor(name: str, config: JsonDict) -> JsonDict:
    """The entry of an interceptor in nel's config; without settings it has only a name."""
    if config:
        return {"name": name, "config": config}
    return {"name": name}
