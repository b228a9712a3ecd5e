"""lm-eval tasks as problems: nel uses lm-eval's prompts, stop strings, filters, metrics and aggregation, not its
client.

Only ``lm_eval.py`` loads this module.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final, TypeAlias

from lm_eval.api.metrics import mean
from lm_eval.models.api_models import JsonChatStr
from lm_eval.tasks import TaskManager

from nemo_evaluator.core.errors import BoundaryError, UsageError, boundary
from nemo_evaluator.core.failures import Cause
from nemo_evaluator.core.hashing import digest
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.types import JsonDict, Message, PromptRequest, SeedResult, VerifyResult
from nemo_evaluator.datasets.mirrored_hub import mirrored_hub
from nemo_evaluator.environments.base import EvalEnvironment
from nemo_evaluator.environments.schemes._lm_eval_documents import (
    PromptForm,
    TaskDocuments,
    messages_of,
    without_bars,
)
from nemo_evaluator.environments.schemes._lm_eval_scores import (
    is_number,
    is_unparsed,
    plain,
    reward_of,
    stderr_key,
    stderr_of,
    values_by_task,
)
from nemo_evaluator.environments.schemes._loglikelihood_prompts import LoglikelihoodPrompts
from nemo_evaluator.models import Client
from nemo_evaluator.sandbox.base import Sandbox

# A suite is the documents of its tasks, and the groups that aggregate them.
Suite: TypeAlias = tuple[dict[str, TaskDocuments], dict[str, Any]]
# lm-eval's own seed for the choice of examples, and its token limit for a task that sets none.
_FEWSHOT_SEED: Final = 1234
_MAX_TOKENS: Final = 256
# The stop strings that lm-eval sends to a chat endpoint.
_CHAT_STOPS: Final = 4
# With several metrics, the reward is the first of these that a task has, else the task's first metric.
_LEADING: Final = ("exact_match", "acc", "em", "score", "bleu", "rouge1", "prompt_level_strict_acc")


def load_suite(
    name: str, include_path: str | None, num_fewshot: int | None, limit: float | None
) -> Suite:
    """Load a task, group or tag of lm-eval; its requests are built when they are needed.

    Args:
        name: The task, group or tag.
        include_path: A folder with the user's own tasks.
        num_fewshot: The number of examples; None for the tasks' own.
        limit: The number of documents per task, or a share of them below 1; None for all.

    Raises:
        UsageError: The name is unknown, lm-eval cannot load it, or nel cannot run it.
    """
    # Searching lm-eval's thousands of task files is slow, so search them only if the name is not the user's own.
    without_bars()
    manager = task_manager(include_path, stock=include_path is None)
    if name not in manager.all_tasks:
        manager = task_manager(include_path, stock=True)
    if name not in manager.all_tasks:
        advice = "`lm_eval ls tasks` shows all; yours are found by include_path"
        hint = did_you_mean(name, manager.all_tasks, advice)
        raise UsageError(f"lm-eval has no task, group or tag {name!r}", hint=hint)
    try:
        with boundary(Cause.SEED), mirrored_hub():
            loaded = manager.load([name])
    except BoundaryError as error:
        hint = (
            "see the task's README in lm-eval for what it needs: data (a mirror must hold all its splits), "
            "libraries, a login to the hub"
        )
        raise UsageError(
            f"lm-eval cannot load {name!r}: {error.message}", hint=error.hint or hint
        ) from error
    tasks: dict[str, Any] = loaded["tasks"]
    for key, task in tasks.items():
        _check_supported(key, task)
        own_fewshot = task.get_config("num_fewshot")
        if own_fewshot is None or (num_fewshot is not None and own_fewshot != 0):
            task.set_config(key="num_fewshot", value=num_fewshot or 0)
        task.set_fewshot_seed(seed=_FEWSHOT_SEED)
    documents = {key: TaskDocuments(task, limit) for key, task in tasks.items()}
    return documents, loaded["groups"]


def _check_supported(name: str, task: Any) -> None:
    """Raise UsageError for a task that runs generated code on this machine, or that needs images."""
    if getattr(task, "UNSAFE_CODE", False):
        raise UsageError(
            f"lm-eval's task {name!r} runs what the model wrote on this machine",
            hint="use the built-in benchmarks for code, which run it in a sandbox: humaneval, mbpp",
        )
    if getattr(task, "MULTIMODAL", False):
        raise UsageError(f"lm-eval's task {name!r} shows images, which lm-eval:// does not pass on")


@cache
def task_manager(include_path: str | None, *, stock: bool) -> Any:
    """Return lm-eval's index of task files: those in a folder and, with ``stock``, its own."""
    return TaskManager(include_path=include_path, include_defaults=stock)


class LmEvalEnvironment(EvalEnvironment):
    """A task or group of lm-eval; rows hold every metric of a document, and lm-eval's code aggregates the scores.

    Args:
        uri: The URI of the task or group.
        suite: The loaded tasks and groups.
        prompts: Writes log-likelihood requests.
        metric: The metric that becomes the reward; None for the default.
        num_examples: The number of documents, from the first; None for all.
        fewshot_as_multiturn: For chat endpoints: whether each few-shot example is a turn of its own; None for yes.

    Raises:
        UsageError: No task has the metric.
    """

    def __init__(
        self,
        uri: str,
        suite: Suite,
        prompts: LoglikelihoodPrompts,
        metric: str | None,
        num_examples: int | None,
        *,
        fewshot_as_multiturn: bool | None = None,
    ) -> None:
        self.name = uri
        self._prompts = prompts
        self._metric = metric
        self._multiturn = fewshot_as_multiturn
        self._documents, self._groups = suite
        self._tasks = {name: documents.task for name, documents in self._documents.items()}
        # The task and the number of each document.
        places: list[tuple[str, int]] = []
        for name, documents in self._documents.items():
            places.extend((name, number) for number in range(len(documents)))
        self._dataset = places[:num_examples]
        if metric is not None:
            metric_names: set[str] = set()
            for task in self._tasks.values():
                metric_names.update(task.aggregation())
            if metric.partition(",")[0] not in metric_names:
                raise UsageError(
                    f"{uri} has no metric {metric!r}",
                    hint=f"it has: {', '.join(sorted(metric_names))}",
                )

    @property
    def endpoint_type(self) -> str:
        """``chat`` if all requests generate text, which any endpoint does, else ``logprobs``."""
        request_types: set[str] = set()
        for documents in self._documents.values():
            request_types |= documents.request_types()
        return "chat" if request_types == {"generate_until"} else "logprobs"

    async def use_model(self, client: Client) -> None:
        """Write prompts as the model's endpoint takes them, and let log-likelihood prompts find the tokenizer.

        Raises:
            UsageError: ``fewshot_as_multiturn`` is set, and the endpoint completes texts.
        """
        if client.endpoint.protocol != "completions":
            form = PromptForm(chat=True, multiturn=self._multiturn is not False)
            for documents in self._documents.values():
                documents.form = form
        elif self._multiturn is not None:
            raise UsageError(
                f"{self.name}: fewshot_as_multiturn has no effect on a completions endpoint",
                hint="remove it, or use a chat endpoint",
            )
        if self.endpoint_type == "logprobs":
            await self._prompts.use_model(client)

    async def prepare(self) -> None:
        """Check that the server returns usable log-likelihoods."""
        await self._prompts.check_model()

    def cluster_columns(self, idx: int, problem: SeedResult) -> Mapping[str, Any]:
        """Return the columns of a document, and the metadata of its problem."""
        _, instances = self._document(idx)
        document = instances[0].doc
        return {**(document if isinstance(document, dict) else {}), **problem.metadata}

    async def seed(self, idx: int) -> SeedResult:
        """Return a document as a problem with all of its requests."""
        task, instances = self._document(idx)
        first_instance = instances[0]
        context = first_instance.args[0]
        messages: list[Message] | None = None
        prompt = str(context)
        if isinstance(context, JsonChatStr):
            messages = messages_of(context)
            prompt = str(messages[-1]["content"])
        requests: list[PromptRequest] = []
        for instance in instances:
            requests.extend(await self._requests(instance))
        return SeedResult(
            prompt=prompt,
            messages=messages,
            expected_answer=str(task.doc_to_target(first_instance.doc)),
            metadata={
                "source": "lm-eval",
                "category": task.task_name,
                "doc_id": first_instance.doc_id,
                "position": idx,
            },
            requests=requests,
        )

    async def verify(
        self, response: str, expected: str, sandbox: Sandbox | None = None, **metadata: Any
    ) -> VerifyResult:
        """Apply lm-eval's filters and metrics to the replies; the leading metric becomes the reward."""
        task, requests = self._document(metadata["position"])
        instances = _answered(requests, response)
        first_instance = instances[0]
        # Keys are "metric,filter", as in lm-eval's results.
        metrics: JsonDict = {}
        for ensemble in task._filters:
            ensemble.apply(instances)
        for filter_name in first_instance.filtered_resps:
            filtered_replies = [instance.filtered_resps[filter_name] for instance in instances]
            values = task.process_results(first_instance.doc, filtered_replies)
            for metric, value in values.items():
                metrics[f"{metric},{filter_name}"] = plain(value)
        leading_metric = self._leading_metric(list(metrics))
        filtered = first_instance.filtered_resps[leading_metric.rpartition(",")[2]]
        details = {
            "metric": leading_metric,
            "metrics": metrics,
            "task": task.task_name,
            "position": metadata["position"],
        }
        if is_unparsed(task, leading_metric, filtered):
            details["unparsed"] = True
            return VerifyResult(reward_of(metrics[leading_metric]), None, details)
        return VerifyResult(reward_of(metrics[leading_metric]), str(filtered), details)

    def _document(self, position: int) -> tuple[Any, list[Any]]:
        """Return the task and the requests of a document."""
        name, number = self._dataset[position]
        documents = self._documents[name]
        return documents.task, documents.requests(number)

    def _leading_metric(self, keys: list[str]) -> str:
        """Return the metric that becomes the reward: the configured one, else the first of ``_LEADING``, else the
        first.
        """
        if self._metric is not None:
            for key in keys:
                if f"{key},".startswith(f"{self._metric},"):
                    return key
        for name in _LEADING:
            for key in keys:
                if key.startswith(f"{name},"):
                    return key
        return keys[0]

    def summarize(self, details: Iterable[JsonDict]) -> Mapping[str, float]:
        """Return every metric of every task and group, as lm-eval aggregates them."""
        results: dict[str, JsonDict] = {}
        for name, values_by_metric in values_by_task(details).items():
            results[name] = self._task_result(name, values_by_metric)
        group_results = {name: group.aggregate(results) for name, group in self._groups.items()}
        is_single = len(self._tasks) == 1 and not group_results
        scores: dict[str, float] = {}
        for name, result in (group_results | results).items():
            prefix = "" if is_single else f"{name}/"
            for key, value in result.items():
                if is_number(key, value):
                    scores[f"{prefix}{key}"] = float(value)
        return scores

    def _task_result(self, name: str, values_by_metric: dict[str, list[Any]]) -> JsonDict:
        """Aggregate the values of a task as lm-eval does.

        Args:
            name: The task.
            values_by_metric: The values of its documents, by ``metric,filter``.
        """
        aggregations = self._tasks[name].aggregation()
        counts = [len(values) for values in values_by_metric.values()]
        result: JsonDict = {"sample_len": max(counts)}
        for key, values in values_by_metric.items():
            metric, _, _ = key.rpartition(",")
            aggregate = aggregations.get(metric, mean)
            result[key] = aggregate(values)
            result[stderr_key(key)] = stderr_of(metric, aggregate, values)
        return result

    def scorer_fingerprint(self) -> str:
        """Identify the tasks' configurations, the metric and the version of lm-eval."""
        configs = [task.dump_config() for task in self._tasks.values()]
        configs_json = json.dumps(
            configs, sort_keys=True, default=lambda value: type(value).__name__
        )
        return f"lm-eval {version('lm_eval')} {self.name} {self._metric} {digest(configs_json)}"

    async def _requests(self, instance: Any) -> list[PromptRequest]:
        """Convert a request of lm-eval to prompts for our client."""
        request_type = instance.request_type
        repeats = _repeats(instance)
        if request_type == "generate_until":
            context, settings = instance.args
            if isinstance(context, JsonChatStr):
                generation = _generation(settings)
                # As lm-eval's client for chat endpoints does.
                generation["stop"] = generation["stop"][:_CHAT_STOPS]
                request = PromptRequest("", generation=generation, messages=messages_of(context))
            else:
                request = PromptRequest(str(context), generation=_generation(settings))
            return [request] * repeats
        if request_type == "loglikelihood":
            return [await self._prompts.pair(*instance.args)] * repeats
        return await self._prompts.rolling(instance.args[0]) * repeats


def _answered(requests: list[Any], response: str) -> list[Any]:
    """Return copies of the requests with their results.

    They are copies because lm-eval stores results in a request, and steps run concurrently.
    """
    first_request = requests[0]
    is_single_text = (
        len(requests) == 1
        and _repeats(first_request) == 1
        and first_request.request_type == "generate_until"
    )
    results: list[Any] = [response] if is_single_text else json.loads(response)
    instances = []
    position = 0
    for instance in requests:
        answered = copy.copy(instance)
        repeats = _repeats(instance)
        answered.filtered_resps = {}
        if instance.request_type == "loglikelihood_rolling":
            # A whole text is the only request of its document, and is split into several windows.
            windows_per_repeat = len(results) // repeats
            answered.resps = []
            for repeat in range(repeats):
                windows = results[repeat * windows_per_repeat : (repeat + 1) * windows_per_repeat]
                answered.resps.append(sum(window[0] for window in windows))
        else:
            own_results = results[position : position + repeats]
            position += repeats
            if instance.request_type == "generate_until":
                answered.resps = own_results
            else:
                answered.resps = [tuple(result) for result in own_results]
        instances.append(answered)
    return instances


def _repeats(instance: Any) -> int:
    return max(1, instance.repeats or 1)


def _generation(settings: Mapping[str, Any]) -> JsonDict:
    """Convert lm-eval's generation settings to those of the OpenAI protocol."""
    until = settings.get("until") or []
    stops = [until] if isinstance(until, str) else [text for text in until if text]
    other_settings: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in ("until", "do_sample", "max_gen_toks"):
            other_settings[name] = value
    return {
        "temperature": 0.0,
        "max_tokens": settings.get("max_gen_toks", _MAX_TOKENS),
        **other_settings,
        "stop": stops,
    }
