"""``adapter_config``: the launcher's fields for interceptors, as interceptors of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict, as_list
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.launcher.table import Outcome, Rule, rules, stage_names, walk

# The order in which the launcher's chain has them.
_ORDER: Final = (
    "system_message",
    "payload_modifier",
    "logging",
    "response_stats",
    "reasoning",
    "progress_tracking",
    "raise_client_errors",
)
_LOGGED: Final = 2
Say = Callable[[str, Outcome, str], None]


class Adapter:
    """The pipeline that an ``adapter_config`` stands for: ``stages`` by name, and what else it asks of the run."""

    def __init__(self, fields: JsonDict, say: Say) -> None:
        self.fields, self.say = {key: value for key, value in fields.items() if value is not None}, say
        self.stages: dict[str, JsonDict] = {}
        self.listed: list[JsonDict] = []
        self.cache_dir: str | None = None
        self.output: JsonDict = {}
        walk(self.fields, "adapter", self._apply, lambda field, why: say(field, "refused", why))
        self._log()

    @property
    def interceptors(self) -> list[JsonDict]:
        """The stages as a config lists them."""
        named = [name for name in _ORDER if name in self.stages]
        found = [{"name": name, "config": self.stages[name]} if self.stages[name] else {"name": name} for name in named]
        return self.listed or found

    def _apply(self, field: str, row: str, rule: Rule, value: Any) -> None:
        if rule.stage is not None:
            self._stage(field, rule, value)
        elif rule.by is not None:
            getattr(self, f"_{rule.by}")(field, value)
        elif not rule.needs_nothing(value, None):
            self.say(field, "warned" if rule.warn else "refused", str(rule.warn or rule.refuse))

    def _stage(self, field: str, rule: Rule, value: Any) -> None:
        switch = rule.switch or (field if rule.setting is None else None)
        on = switch is None or bool(self.fields.get(switch) or (rule.stage == "reasoning" and self._reasons))
        if rule.setting is not None and rules("adapter")[field].needs_nothing(value, None):
            return
        if not on:
            if rule.setting is not None:
                self.say(field, "warned", f"{rule.switch} is not switched on, so it has no effect")
            return
        settings = self.stages.setdefault(str(rule.stage), {})
        if rule.setting is not None:
            settings[rule.setting] = value
        self.say(field, "translated", f"proxy.interceptors: {rule.stage}")

    @property
    def _reasons(self) -> bool:
        return bool(self.fields.get("use_reasoning") or self.fields.get("process_reasoning_traces"))

    def _switch(self, field: str, value: Any) -> None:
        if value and not self.fields.get("custom_system_prompt"):
            self.say(field, "refused", "custom_system_prompt is what it would use; give both")
        elif value:
            self.say(field, "translated", "proxy.interceptors: system_message")

    def _cache_dir(self, field: str, value: Any) -> None:
        if self.fields.get("use_caching", True):
            self.cache_dir = str(value)
            self.say(field, "translated", "proxy.cache.dir")
        else:
            self.say(field, "warned", "use_caching is off")

    def _traffic(self, field: str, value: Any) -> None:
        if value:
            self.output["traffic"] = "bodies"
            self.say(field, "translated", "output.traffic")

    def _html_report(self, field: str, value: Any) -> None:
        if value:
            self.output.setdefault("report", ["markdown"]).append("html")
            self.say(field, "translated", "output.report")

    def _json_report(self, field: str, value: Any) -> None:
        if value:
            self.output.setdefault("report", ["markdown"]).append("json")
            self.say(field, "translated", "output.report")

    def _log(self, field: str | None = None, value: Any = None) -> None:
        """One stage logs requests, responses and failures; the launcher logs two of each where no number is given."""
        if field is not None:
            self.say(field, "translated", "proxy.interceptors: logging")
            return
        wanted = {key: bool(self.fields.get(f"use_{key}_logging")) for key in ("request", "response")}
        failed = bool(self.fields.get("log_failed_requests"))
        if not failed and not any(wanted.values()):
            return
        most = {
            f"max_{key}s": self.fields.get(f"max_logged_{key}s", _LOGGED) if on else 0 for key, on in wanted.items()
        }
        self.stages["logging"] = {**most, "log_failed": failed}

    def _explicit_list(self, field: str, value: Any) -> None:
        """An explicit list takes the place of the whole chain; the two are not mixed."""
        if other := [name for name in self.fields if name not in ("interceptors", "discovery", "post_eval_hooks")]:
            self.say(field, "refused", f"{other[0]} and an explicit list exclude each other; keep one")
            return
        for number, entry in enumerate(as_list(value)):
            given = as_dict(entry)
            name, settings = str(given.get("name")), as_dict(given.get("config"))
            if given.get("enabled") is False:
                continue
            if name not in stage_names():
                hint = did_you_mean(name, stage_names())
                self.say(f"{field}[{number}]", "refused", f"there is no interceptor {name!r}; {hint}")
            elif ours := stage_names()[name].get("name"):
                renamed = stage_names()[name].get("settings", {})
                config = {renamed.get(key, key): setting for key, setting in settings.items()}
                self.listed.append({"name": ours, "config": config} if config else {"name": ours})
                self.say(f"{field}[{number}]", "translated", f"proxy.interceptors: {ours}")
