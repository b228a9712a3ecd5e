"""Tasks of lm-eval as problems: its prompts, stop strings, filters, metrics and aggregation, and nothing of its client.

Only ``lm_eval.py`` loads this.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from lm_eval.api.metrics import mean
from lm_eval.tasks import TaskManager

from nemo_evaluator.core.errors import BoundaryError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, PromptRequest, SeedResult, VerifyResult
from nemo_evaluator.datasets.mirrored_hub import mirrored_hub
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.schemes._loglikelihood_prompts import LoglikelihoodPrompts
from nemo_evaluator.models import Client
from nemo_evaluator.sandbox.base import Sandbox

# What a name stands for: tasks, and the groups that weigh them; and a document: its task and the requests of it.
Suite: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
Document: TypeAlias = tuple[Any, list[Any]]
# What lm-eval itself seeds the choice of examples with, and generates when a task does not say.
_FEWSHOT_SEED: Final = 1234
_MAX_TOKENS: Final = 256
# Which metric becomes the reward when there are several: the first of these that a task has, else its first.
_LEADING: Final = ("exact_match", "acc", "em", "score", "bleu", "rouge1", "prompt_level_strict_acc")


def load_suite(
    name: str, include_path: str | None, num_fewshot: int | None, limit: int | None
) -> Suite:
    """The tasks of a task, group or tag, and the groups that weigh them; all requests are built, in lm-eval's order, as
    its draws of few-shot examples depend on that."""
    # The many thousand task files of lm-eval are looked through only for a name that is not the user's own, and once.
    manager = task_manager(include_path, stock=include_path is None)
    if name not in manager.all_tasks:
        manager = task_manager(include_path, stock=True)
    if name not in manager.all_tasks:
        others = "`lm_eval ls tasks` shows all; yours are found by include_path"
        hint = did_you_mean(name, manager.all_tasks, others)
        raise UsageError(f"lm-eval has no task, group or tag {name!r}", hint=hint)
    try:
        with boundary(Cause.SEED), mirrored_hub():
            loaded = manager.load([name])
    except BoundaryError as error:
        hint = "see the task's README in lm-eval for what it needs: data (a mirror must hold all its splits), "
        hint += "libraries, a login to the hub"
        raise UsageError(
            f"lm-eval cannot load {name!r}: {error.message}", hint=error.hint or hint
        ) from error
    tasks: dict[str, Any] = loaded["tasks"]
    for key, task in tasks.items():
        if getattr(task, "UNSAFE_CODE", False):
            hint = (
                "use the built-in benchmarks for code, which run it in a sandbox: humaneval, mbpp"
            )
            raise UsageError(
                f"lm-eval's task {key!r} runs what the model wrote on this machine", hint=hint
            )
        if getattr(task, "MULTIMODAL", False):
            raise UsageError(
                f"lm-eval's task {key!r} shows images, which lm-eval:// does not pass on"
            )
        shots = task.get_config("num_fewshot")
        if shots is None or (num_fewshot is not None and shots != 0):
            task.set_config(key="num_fewshot", value=num_fewshot or 0)
        task.set_fewshot_seed(seed=_FEWSHOT_SEED)
        task.build_all_requests(limit=limit, rank=0, world_size=1)
    return tasks, loaded["groups"]


@cache
def task_manager(include_path: str | None, *, stock: bool) -> Any:
    """lm-eval's index of task files: those of a folder, and its own where they are wanted."""
    return TaskManager(include_path=include_path, include_defaults=stock)


class LmEvalEnvironment(EvalEnvironment):
    """A task or group of lm-eval. Rows hold every metric of a document; the scores are aggregated by lm-eval's code."""

    def __init__(
        self,
        uri: str,
        suite: Suite,
        prompts: LoglikelihoodPrompts,
        metric: str | None,
        num_examples: int | None,
    ) -> None:
        self.name = uri
        self._prompts = prompts
        self._metric = metric
        self._tasks, self._groups = suite
        documents: dict[tuple[str, int], Document] = {}
        for name, task in self._tasks.items():
            for instance in task.instances:
                documents.setdefault((name, instance.doc_id), (task, []))[1].append(instance)
        for _, instances in documents.values():
            instances.sort(key=lambda one: int(one.idx))
        self._dataset = list(documents.values())[:num_examples]
        if metric is not None:
            known = {name for task in self._tasks.values() for name in task.aggregation()}
            if metric.partition(",")[0] not in known:
                raise UsageError(
                    f"{uri} has no metric {metric!r}", hint=f"it has: {', '.join(sorted(known))}"
                )

    @property
    def endpoint_type(self) -> str:
        kinds: set[Any] = set()
        for _, instances in self._dataset[:1]:
            for one in instances:
                kinds.add(one.request_type)
        kinds |= {task.OUTPUT_TYPE for task in self._tasks.values()}
        return "completions" if kinds == {"generate_until"} else "logprobs"

    async def use_model(self, client: Client) -> None:
        if self.endpoint_type == "logprobs":
            await self._prompts.use_model(client)

    async def prepare(self) -> None:
        await self._prompts.check_model()

    async def seed(self, idx: int) -> SeedResult:
        task, instances = self._dataset[idx]
        first = instances[0]
        return SeedResult(
            prompt=str(first.args[0]),
            expected_answer=str(task.doc_to_target(first.doc)),
            metadata={
                "source": "lm-eval",
                "category": task.task_name,
                "doc_id": first.doc_id,
                "position": idx,
            },
            requests=[request for one in instances for request in await self._requests(one)],
        )

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        task, asked = self._dataset[metadata["position"]]
        instances = _answered(asked, response)
        metrics: JsonDict = {}
        for ensemble in task._filters:
            ensemble.apply(instances)
        for chosen in instances[0].filtered_resps:
            found = task.process_results(
                instances[0].doc, [one.filtered_resps[chosen] for one in instances]
            )
            metrics |= {f"{metric},{chosen}": _plain(value) for metric, value in found.items()}
        wanted: list[str] = []
        for key in metrics:
            if self._metric is not None and f"{key},".startswith(f"{self._metric},"):
                wanted.append(key)
        ranked: list[str] = []
        for name in _LEADING:
            for key in metrics:
                if key.startswith(f"{name},"):
                    ranked.append(key)
        lead = next(iter([*wanted, *ranked, *metrics]))
        filtered = instances[0].filtered_resps[lead.rpartition(",")[2]]
        details = {
            "metric": lead,
            "metrics": metrics,
            "task": task.task_name,
            "position": metadata["position"],
        }
        return VerifyResult(_reward(metrics[lead]), str(filtered), details)

    def summarize(self, details: Iterable[JsonDict]) -> Mapping[str, float]:
        """Every metric of every task and group, as lm-eval aggregates them."""
        raw: dict[str, dict[str, list[Any]]] = {}
        for one in sorted(details, key=lambda one: int(one["position"])):
            for key, value in one["metrics"].items():
                raw.setdefault(one["task"], {}).setdefault(key, []).append(value)
        results: dict[str, JsonDict] = {}
        for name, metrics in raw.items():
            ways = self._tasks[name].aggregation()
            values = {
                key: ways.get(key.rpartition(",")[0], mean)(items) for key, items in metrics.items()
            }
            results[name] = {"sample_len": max(map(len, metrics.values())), **values}
        whole = {name: group.aggregate(results) for name, group in self._groups.items()}
        single = len(self._tasks) == 1 and not whole
        all_found: list[tuple[str, Any, Any]] = []
        for name, found in (whole | results).items():
            for key, value in found.items():
                all_found.append((name, key, value))
        told = [one for one in all_found if "," in one[1] and "_stderr," not in one[1]]
        return {key if single else f"{name}/{key}": float(value) for name, key, value in told}

    def scorer_fingerprint(self) -> str:
        configs = [task.dump_config() for task in self._tasks.values()]
        text = json.dumps(configs, sort_keys=True, default=lambda one: type(one).__name__)
        return f"lm-eval {version('lm_eval')} {self.name} {self._metric} {digest(text)}"

    async def _requests(self, instance: Any) -> list[PromptRequest]:
        kind = instance.request_type
        repeats = _repeats(instance)
        if kind == "generate_until":
            context, settings = instance.args
            return [PromptRequest(str(context), generation=_generation(settings))] * repeats
        if kind == "loglikelihood":
            return [await self._prompts.pair(*instance.args)] * repeats
        return await self._prompts.rolling(instance.args[0]) * repeats


def _answered(asked: list[Any], response: str) -> list[Any]:
    """The requests with their results. Copies: lm-eval keeps results in them, and steps run side by side."""
    first = asked[0]
    alone = len(asked) == 1 and _repeats(first) == 1 and first.request_type == "generate_until"
    if alone:
        results: list[str | Any] | Any = [response]
    else:
        results = json.loads(response)
    instances = []
    at = 0
    for instance in asked:
        answered = copy.copy(instance)
        repeats = _repeats(instance)
        answered.filtered_resps = {}
        if instance.request_type == "loglikelihood_rolling":
            # A whole text is the only request of its document, in as many windows as it takes.
            size = len(results) // repeats
            resps: list[Any] = []
            for k in range(repeats):
                resps.append(sum(one[0] for one in results[k * size : (k + 1) * size]))
            answered.resps = resps
        else:
            taken = results[at : at + repeats]
            at = at + repeats
            if instance.request_type == "generate_until":
                answered.resps = taken
            else:
                answered.resps = [tuple(one) for one in taken]
        instances.append(answered)
    return instances


def _repeats(instance: Any) -> int:
    return max(1, instance.repeats or 1)


def _generation(settings: Mapping[str, Any]) -> JsonDict:
    """lm-eval's words for generation as those of the protocol."""
    stop = settings.get("until") or []
    if isinstance(stop, str):
        stops = [stop]
    else:
        stops = [one for one in stop if one]
    own: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in ("until", "do_sample", "max_gen_toks"):
            own[name] = value
    return {
        "temperature": 0.0,
        "max_tokens": settings.get("max_gen_toks", _MAX_TOKENS),
        **own,
        "stop": stops,
    }


def _plain(value: Any) -> Any:
    """A metric's value as JSON keeps it: aggregation takes lists where it was given tuples."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        return value.item()
    return value


def _reward(value: Any) -> float:
    """One number for a row: the value; of (log-likelihood, length) the quotient; of (answer, target) their equality."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, list) and len(value) == 2:
        first, second = value
        if isinstance(first, float) and second:
            return first / float(second)
        return float(first == second)
    return float(mean(value))
