"""Translate the parameters of one task of the launcher, as its route takes them."""

import math
import shlex
from typing import Any, ClassVar, Final

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.registry import builtin_names, environment_class
from nemo_evaluator.launcher._head import Head
from nemo_evaluator.launcher.catalogue import Task
from nemo_evaluator.launcher.routes import TaskRoute, needs_of
from nemo_evaluator.launcher.table import FieldRule, TableSection, put_in, table

#: How the launcher's configs refer to a server that the run starts besides the model.
AUXILIARY: Final = "auxiliary_deployments."
#: Shell hooks of a task, or of the evaluation for all tasks that have none of their own.
SHELL: Final = ("pre_cmd", "post_cmd")
_CONTAINER_ONLY: Final = (
    "only the harness knows it; --containers runs the task in the harness's container"
)
_NO_AUXILIARY: Final = (
    "the harness's container cannot reach an auxiliary server; --native runs a benchmark of nel, if there is one, "
    "or give the URL of a judge that runs already"
)
_TRUST_REMOTE_CODE: Final = "--trust_remote_code"
# nel's default timeouts in seconds; they are raised if a request may take longer.
_STEP = 1800
_FIRST_BYTE = 600


class TaskParameters(TableSection):
    """Translates the parameters of one task: to a benchmark (``bench``), and to the request settings of its service.

    Args:
        head: The translation of the run around the task.
        index: Index among the tasks that will run.
        number: Index in the launcher's config.
        task: The task's entry in the catalogue.
        own: The task's entry in the config.
        shared: The ``evaluation`` section, which holds settings for all tasks.
        route: How nel runs the task.
    """

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
        route: TaskRoute,
    ) -> None:
        super().__init__(head.draft)
        self.index = index
        self.head = head
        self.number = number
        self.task = task
        self.own = own
        self.route = route
        self.contained = route.contained
        self.trees = {f"evaluation.tasks[{number}]": own, "evaluation": shared}
        self.bench: JsonDict = {
            "name": route.benchmark,
            "id": f"{task.name.replace('://', '_').replace('/', '_')}.{number}",
            "solver": {"type": "container" if route.contained else "simple", "service": "model"},
        }
        if not route.equal:
            self.bench["replaces"] = task.full_name
        self.shell = {key: shared[key] for key in SHELL if shared.get(key)}
        self.service: JsonDict = {}
        self.judge: JsonDict | None = None

    def place(self, field: str) -> str:
        """Return the field as the user knows it: of the task, of the evaluation, or from the catalogue."""
        if field.partition(".")[0] in self.own:
            return f"evaluation.tasks[{self.number}].{field}"
        if field in SHELL:
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
        elif section == "skills" and not self.route.benchmark.startswith("skills://"):
            self.say(field, "refused", _CONTAINER_ONLY)
        else:
            path = path.replace("skills.", "params.")
            put_in(self.bench, path, value)
            self.say(field, "translated", f"benchmarks[{self.index}].{path}")

    def apply(self, field: str, rule: FieldRule, value: Any) -> None:
        """Apply a row of the table; a harness in its container gets its parameters unchanged."""
        parameter = field.removeprefix("config.params.")
        if self.contained and parameter != field and value is not None:
            self._pass_to_container(field, parameter, value)
        elif self.contained and field == "dataset_dir" and value:
            mount_path = self.own.get("dataset_mount_path") or "/datasets"
            self.put(field, "solver.mounts", {str(value): mount_path})
            put_in(self.bench, "solver.env_vars", {"NEMO_EVALUATOR_DATASET_DIR": mount_path})
        else:
            super().apply(field, rule, value)

    def _pass_to_container(self, field: str, parameter: str, value: Any) -> None:
        """Pass a parameter unchanged to the harness in its container.

        Args:
            field: The launcher's field.
            parameter: Its path in ``config.params``.
            value: The value.
        """
        url = as_dict(value).get("url")
        if str(url).startswith(AUXILIARY):
            self.say(f"{field}.url", "refused", _NO_AUXILIARY)
            return
        if parameter == "extra.num_repeats":
            # The harnesses with this parameter write a row for each repeat; the others write only scores.
            put_in(self.bench, "repeats", value)
        self.put(field, f"params.{parameter}", value)

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
        if self.route.kind == "lm-eval":
            # As in lm-eval, the limit is for each task of a group.
            self.put(field, "params.limit", value)
            return
        if value < 1 or field.endswith("downsampling_ratio"):
            size = _benchmark_size(self.route.benchmark)
            if size is None:
                reason = f"the number of problems in {self.route.benchmark} is unknown; give a whole number"
                self.say(field, "refused", reason)
                return
            value = math.ceil(size * value)
        self.put(field, "max_problems", int(value))
        self.bench["shuffle_seed"] = None

    def _skills_arguments(self, field: str, value: Any) -> None:
        """Translate ``++key=value`` arguments: sampling settings have an equivalent, other prompts do not."""
        if self.route.kind == "lm-eval":
            self._lm_eval_arguments(field, str(value or ""))
            return
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

    def _lm_eval_arguments(self, field: str, text: str) -> None:
        """Report arguments for lm-eval's command line, of which nel needs none."""
        for argument in shlex.split(text):
            if argument == _TRUST_REMOTE_CODE:
                self.say(field, "translated", "needs nothing")
            else:
                self.say(field, "refused", f"{argument}: {_CONTAINER_ONLY}")

    def _tokenizer(self, field: str, value: Any) -> None:
        """Give lm-eval the tokenizer for log-likelihoods; nothing else counts tokens."""
        if not value:
            self.say(field, "translated", "needs nothing")
        elif self.route.kind == "lm-eval":
            self.put(field, "params.tokenizer", value)
        else:
            self.say(field, "warned", "tokens are counted by the server that answers")

    def _judge(self, field: str, value: Any) -> None:
        """Keep the judge's settings if the benchmark needs a judge."""
        if "judge" in needs_of(self.task):
            self.judge = as_dict(value)
            self.put(field, "scoring.include_defaults", False)
        else:
            self.say(field, "warned", f"{self.route.benchmark} is scored without a judge")


def _benchmark_size(name: str) -> int | None:
    """Return the number of problems of a built-in benchmark; None when it is unknown."""
    if name not in builtin_names():
        return None
    definition = getattr(environment_class(name), "definition", None)
    if definition is None:
        return None
    return definition.info.size or None
