"""``adapter_config``: the launcher's fields for interceptors, as interceptors of ours."""

from typing import Any, ClassVar, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import Draft, Rule, Scope, table

# The order of the launcher's chain.
_ORDER: Final = ("system_message", "payload_modifier", "logging", "response_stats", "reasoning", "progress_tracking")
_LOGGED: Final = 2


class Adapter(Scope):
    """The pipeline that an ``adapter_config`` stands for; what it asks of the run itself goes into the draft."""

    section: ClassVar[str] = "adapter"

    def __init__(self, draft: Draft, fields: JsonDict, shown: str) -> None:
        super().__init__(draft)
        self.fields, self.shown = {key: value for key, value in fields.items() if value is not None}, shown
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
        return self.listed or [{"name": name} | ({"config": c} if (c := self.stages[name]) else {}) for name in names]

    def apply(self, field: str, rule: Rule, value: Any) -> None:
        """A setting of a stage, or the switch of one."""
        if rule.stage is None or value in (rule.fine or ()):
            super().apply(field, rule, value)
            return
        switch = rule.switch or (None if rule.setting else field)
        if switch is not None and not self.fields.get(switch):
            off = rule.setting is not None
            self.say(field, "warned" if off else "translated", f"{switch} is off" if off else "needs nothing")
            return
        settings = self.stages.setdefault(rule.stage, {})
        if rule.setting is not None:
            settings[rule.setting] = value
        self.say(field, "translated", f"proxy.interceptors: {rule.stage}")

    def _system_prompt(self, field: str, value: Any) -> None:
        if value and not self.fields.get("custom_system_prompt"):
            self.say(field, "refused", "custom_system_prompt is what it would use; give both")
        else:
            self.say(field, "translated", "proxy.interceptors: system_message" if value else "needs nothing")

    def _cache_dir(self, field: str, value: Any) -> None:
        if self.fields.get("use_caching", True):
            self.cache = {"mode": "write", "dir": str(value)}
        self.say(
            field, "translated" if self.cache else "warned", "proxy.cache.dir" if self.cache else "use_caching is off"
        )

    def _logging(self) -> None:
        """One stage logs requests, responses and failures; the launcher logs two of each where no number is given."""
        wanted = {key: bool(self.fields.get(f"use_{key}_logging")) for key in ("request", "response")}
        failed = bool(self.fields.get("log_failed_requests"))
        if failed or any(wanted.values()):
            most = {key: self.fields.get(f"max_logged_{key}s", _LOGGED) if on else 0 for key, on in wanted.items()}
            self.stages["logging"] = {f"max_{key}s": number for key, number in most.items()} | {"log_failed": failed}

    def _explicit_list(self, field: str, value: Any) -> None:
        """An explicit list takes the place of the whole chain; the two are not mixed."""
        known = table()["interceptors"]
        if other := [name for name in self.fields if name != "interceptors"]:
            self.say(field, "refused", f"{other[0]} and an explicit list exclude each other; keep one")
            return
        for number, entry in enumerate(as_list(value)):
            name, settings = str(as_dict(entry).get("name")), as_dict(as_dict(entry).get("config"))
            if as_dict(entry).get("enabled") is False:
                continue
            if name not in known:
                hint = did_you_mean(name, known)
                self.say(f"{field}[{number}]", "refused", f"there is no interceptor {name!r}; {hint}")
            elif ours := known[name].get("name"):
                renamed = known[name].get("settings", {})
                config = {renamed.get(key, key): setting for key, setting in settings.items()}
                self.listed.append({"name": ours} | ({"config": config} if config else {}))
                self.say(f"{field}[{number}]", "translated", f"proxy.interceptors: {ours}")
