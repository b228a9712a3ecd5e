"""One task of the launcher as a benchmark of ours."""

from __future__ import annotations

import math
import shlex
from dataclasses import dataclass, field
from typing import Any, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_modules, environment_class
from nemo_evaluator.launcher._adapter import Adapter
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher._values import variable
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.table import Outcome, Rule, put_in, walk

_GENERATION: Final = {"max_new_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
_LIMITS: Final = {"request_timeout": "timeouts.total", "max_retries": "retry.max_retries"}
_PROTOCOLS: Final = {"chat": "chat_completions", "vlm": "chat_completions", "completions": "completions"}
_PROTOCOLS_TOO: Final = {"completions_logprob": "completions", "undefined": "chat_completions"}
# Of `extra.args`, which NeMo-Skills takes on its command line.
_ARGUMENTS: Final = {
    "inference.temperature": "temperature",
    "inference.top_p": "top_p",
    "inference.tokens_to_generate": "max_tokens",
}
_CONTAINER_ONLY: Final = "only the harness knows it; --containers runs the task in the harness's container"
_STEP: Final = 1800.0
_FIRST_BYTE: Final = 600.0


@dataclass(slots=True)
class TaskDraft:
    """A benchmark in the making, and what it asks of the service that it uses."""

    head: Head
    number: int
    task: Task
    contained: bool
    own: JsonDict
    shared: JsonDict
    bench: JsonDict = field(default_factory=dict)
    service: JsonDict = field(default_factory=dict)
    judge: JsonDict | None = None

    def place(self, name: str) -> str:
        """Where a field stands in the launcher's config: with the task, with the evaluation, or in the catalogue."""
        if name in self.own:
            return f"evaluation.tasks[{self.number}].{name}"
        for place, tree in ((f"evaluation.tasks[{self.number}]", self.own), ("evaluation", self.shared)):
            found: Any = tree.get("nemo_evaluator_config")
            for key in name.split("."):
                found = found.get(key) if isinstance(found, dict) else None
            if found is not None:
                return f"{place}.nemo_evaluator_config.{name}"
        return f"{self.task.full_name}: {name.rpartition('.')[2]}"

    def say(self, name: str, outcome: Outcome, detail: str) -> None:
        """Report a field of the task."""
        self.head.draft.say(self.place(name), outcome, detail)

    def put(self, name: str, path: str, value: Any) -> None:
        """Set something of the benchmark."""
        put_in(self.bench, path, value)
        self.say(name, "translated", f"benchmarks[{self.number}].{path}")

    def apply(self, config: JsonDict) -> None:
        """Translate every field of the task."""
        walk(config, "task", self._apply, lambda name, why: self.say(name, "refused", why))

    def _apply(self, name: str, row: str, rule: Rule, value: Any) -> None:
        if self.contained and name.startswith("config.params."):
            inner = name.removeprefix("config.params.")
            if inner.endswith((".num_repeats", ".n_samples")):
                self.put(name, "repeats", value)
            self.put(name, f"params.{inner}", value)
        elif rule.by is not None:
            getattr(self, f"_{rule.by}")(name, value)
        elif rule.needs_nothing(value, None):
            self.say(name, "translated", "needs nothing")
        else:
            self.say(name, "warned" if rule.warn else "refused", str(rule.warn or rule.refuse))

    def _known(self, name: str, value: Any) -> None:
        self.say(name, "translated", f"benchmarks[{self.number}].name" if name != "endpoint_type" else "protocol")

    def _harness_only(self, name: str, value: Any) -> None:
        if value is not None:
            self.say(name, "refused", _CONTAINER_ONLY)

    def _generation(self, name: str, value: Any) -> None:
        if value is not None:
            self.put(name, f"solver.generation.{_GENERATION[name.rpartition('.')[2]]}", value)

    def _parallelism(self, name: str, value: Any) -> None:
        self.put(name, "max_concurrent", value)

    def _repeats(self, name: str, value: Any) -> None:
        self.put(name, "repeats", value)

    def _fewshot(self, name: str, value: Any) -> None:
        self.put(name, "fewshot", value)

    def _service_limit(self, name: str, value: Any) -> None:
        """Waits and retries are the service's; a step must not end before its request does."""
        key = name.rpartition(".")[2]
        put_in(self.service, _LIMITS[key], value)
        self.say(name, "translated", f"services.model.{_LIMITS[key]}")
        if key == "request_timeout" and value > _FIRST_BYTE:
            put_in(self.service, "timeouts.first_byte", value)
        if key == "request_timeout" and value > _STEP:
            put_in(self.bench, "timeout", value)

    def _limit(self, name: str, value: Any) -> None:
        """The first N problems, or that share of them."""
        if value is None:
            return
        if 0 < value < 1 or name.endswith("downsampling_ratio"):
            nel = str(self.task.nel)
            size = environment_class(nel).definition.info.size if nel in builtin_modules() else None  # type: ignore[attr-defined]
            if size is None:
                self.say(name, "refused", f"nobody knows how many problems {nel} has; give a whole number")
                return
            value = math.ceil(size * value)
        self.put(name, "max_problems", int(value))
        # The launcher's harnesses take the first ones.
        put_in(self.bench, "shuffle_seed", None)

    def _split(self, name: str, value: Any) -> None:
        if str(self.task.nel).startswith("skills://"):
            self.put(name, "params.split", value)
        else:
            self._harness_only(name, value)

    def _skills_arguments(self, name: str, value: Any) -> None:
        """``++key=value`` words: sampling is ours too; another prompt is not."""
        for word in shlex.split(str(value or "")):
            key, _, text = word.lstrip("+").partition("=")
            if key in _ARGUMENTS:
                self.put(name, f"solver.generation.{_ARGUMENTS[key]}", None if text == "null" else float(text))
            elif key == "prompt_config":
                self.say(name, "warned", f"the prompt is nel's own; {_CONTAINER_ONLY}")
            else:
                self.say(name, "refused", f"{key}: {_CONTAINER_ONLY}")

    def _judge(self, name: str, value: Any) -> None:
        """A judge is a service; a benchmark that is scored without one needs none."""
        if "judge" not in self.task.needs:
            self.say(name, "warned", f"{self.task.nel} is scored without a judge")
            return
        self.judge = as_dict(value)
        self.put(name, "scoring.include_defaults", False)

    def _own_endpoint(self, name: str, value: Any) -> None:
        """A task may ask another endpoint than the rest."""
        key = name.rpartition(".")[2]
        if self.head.kind != "none" and key != "api_key_name":
            self.say(name, "refused", f"the {self.head.kind} deployment says where the model is; leave it out")
        elif self.head.kind == "none" and value:
            setting = {"url": "url", "model_id": "model", "api_key_name": "api_key"}[key]
            self.service[setting] = f"${{{value}}}" if key == "api_key_name" else value
            self.say(name, "translated", f"services.model.{setting}")

    def _task_stream(self, name: str, value: Any) -> None:
        if value:
            self.service.setdefault("interceptors", []).append({"name": "streaming", "config": {"request": True}})
            self.say(name, "translated", "proxy.interceptors: streaming")

    def _task_env(self, name: str, value: Any) -> None:
        self.head.handlers["evaluation_env"](self.head, self.place(name), value)
        if self.contained:
            found = {key: variable(key, text).value for key, text in as_dict(value).items()}
            self.put(name, "solver.env_vars", {key: text for key, text in found.items() if text is not None})

    def _dataset(self, name: str, value: Any) -> None:
        inside = self.own.get("dataset_mount_path") or "/datasets"
        if self.contained:
            self.put(name, "solver.mounts", {str(self.own.get("dataset_dir")): inside})
            put_in(self.bench, "solver.env_vars", {"NEMO_EVALUATOR_DATASET_DIR": inside})
        elif name == "dataset_dir" and str(self.task.nel).startswith("skills://"):
            self.put(name, "params.data_dir", value)
        elif value:
            self.say(name, "refused", "datasets come from the hub or a mirror (see `nel data`); " + _CONTAINER_ONLY)

    def _adapter(self, name: str, value: Any) -> None:
        if self.contained:
            self.put(name, "solver.adapter_config", as_dict(value))
            return
        adapter = Adapter(as_dict(value), lambda one, outcome, detail: self.say(f"{name}.{one}", outcome, detail))
        if adapter.interceptors:
            self.service.setdefault("interceptors", []).extend(adapter.interceptors)
        if adapter.cache_dir:
            self.service["cache"] = {"mode": "write", "dir": adapter.cache_dir}
        for key, asked in adapter.output.items():
            put_in(self.head.draft.out, f"output.{key}", asked)


def protocol_of(endpoint: str) -> str | None:
    """The protocol of a launcher's endpoint type; None where we do not speak it."""
    return (_PROTOCOLS | _PROTOCOLS_TOO).get(endpoint)
