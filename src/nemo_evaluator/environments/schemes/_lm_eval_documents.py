"""The documents of a task of lm-eval, whose requests are built when they are asked for.

lm-eval builds the requests of all documents at once, because its choice of few-shot examples depends on their order.
Here that choice is made for the documents before the wanted one, and nothing else is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

from lm_eval.api import task as lm_eval_task
from lm_eval.api.samplers import ContextSampler
from lm_eval.api.task import ConfigurableTask, Task
from lm_eval.models.api_models import JsonChatStr

import datasets
from nemo_evaluator.core.types import JsonDict, Message

# Requests that are kept after they were built: scoring needs them again.
_KEPT_DOCUMENTS: Final = 1024


@dataclass(frozen=True, slots=True)
class PromptForm:
    """How prompts are written: as one text, or as messages of a chat.

    Attributes:
        chat: Whether as messages, as ``--apply_chat_template`` does.
        multiturn: Whether each few-shot example of a chat is a turn of its own.
    """

    chat: bool = False
    multiturn: bool = False

    def options(self) -> JsonDict:
        """Return the form as lm-eval's arguments."""
        return {
            "apply_chat_template": self.chat,
            "fewshot_as_multiturn": self.multiturn,
            "chat_template": _as_json if self.chat else None,
        }


class TaskDocuments:
    """The documents of one task.

    Args:
        task: The task.
        limit: The number of documents, from the first, or a share of them below 1; None for all.
    """

    def __init__(self, task: Any, limit: float | None) -> None:
        self.task = task
        self.form = PromptForm()
        documents = task.eval_docs
        self._documents: Sequence[Any] = (
            documents if hasattr(documents, "__len__") else [*documents]
        )
        self._size = _size_of(len(self._documents), limit)
        self._sampler: Any = getattr(task, "sampler", None)
        # The few-shot examples of the documents up to the last one that was asked for.
        self._examples: list[Sequence[Any]] = []
        # The requests of all documents, for a task with a way of its own to build them.
        self._all_requests: dict[int, list[Any]] | None = None
        self.requests = lru_cache(maxsize=_KEPT_DOCUMENTS)(self._requests)

    def __len__(self) -> int:
        return self._size

    def request_types(self) -> set[str]:
        """Return the types of the requests: ``generate_until``, ``loglikelihood`` and others."""
        types = {str(self.task.OUTPUT_TYPE)}
        if not self._is_standard() and self._size:
            types.update(request.request_type for request in self.requests(0))
        return types

    def _requests(self, number: int) -> list[Any]:
        """Return the requests of a document, in lm-eval's order."""
        if not self._is_standard():
            return self._built_at_once()[number]
        task = self.task
        document = self._documents[number]
        options = self.form.options()
        shots = task.config.num_fewshot or 0
        task.sampler = _Chosen(self._examples_of(number, shots))
        try:
            context = task.fewshot_context(
                document, num_fewshot=shots, gen_prefix=task.doc_to_prefix(document), **options
            )
        finally:
            task.sampler = self._sampler
        requests = task.construct_requests(
            doc=document,
            ctx=context,
            metadata=(task.config["task"], number, task.config.repeats),
            apply_chat_template=self.form.chat,
            chat_template=options["chat_template"],
        )
        return _in_order(requests if isinstance(requests, list) else [requests])

    def _is_standard(self) -> bool:
        """Whether lm-eval's own code builds the requests, one document after the other."""
        kind = type(self.task)
        builds_as_all = kind.build_all_requests is Task.build_all_requests
        has_own_context = (
            getattr(kind, "fewshot_context", None) is not ConfigurableTask.fewshot_context
        )
        has_sampler = isinstance(self._sampler, ContextSampler)
        return builds_as_all and not has_own_context and has_sampler

    def _examples_of(self, number: int, shots: int) -> Sequence[Any]:
        """Return the few-shot examples of a document, drawn in the order of the documents."""
        if not shots:
            return []
        config = self.task.fewshot_cfg
        while len(self._examples) <= number:
            document = None
            if config.split == self.task.config.test_split:
                document = self._documents[len(self._examples)]
            self._examples.append(self._sampler.sample(n=shots, eval_doc=document))
        return self._examples[number]

    def _built_at_once(self) -> dict[int, list[Any]]:
        """Return the requests of all documents, by document."""
        if self._all_requests is None:
            self.task.build_all_requests(
                limit=self._size, rank=0, world_size=1, **self.form.options()
            )
            requests: dict[int, list[Any]] = {}
            for request in self.task.instances:
                requests.setdefault(request.doc_id, []).append(request)
            self._all_requests = {number: _in_order(own) for number, own in requests.items()}
        return self._all_requests


class _Chosen:
    """Stands in for a task's sampler with the examples of one document."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self._examples = examples

    def sample(self, **_: Any) -> Sequence[Any]:
        """Return the examples."""
        return self._examples


def messages_of(context: Any) -> list[Message]:
    """Return the messages of a context that was written as a chat."""
    messages: list[Message] = []
    for message in json.loads(context.prompt):
        messages.append({"role": message["role"], "content": message["content"]})
    return messages


def without_bars() -> None:
    """Turn off the progress bars of lm-eval and of the datasets that it reads: they would flood a log."""
    lm_eval_task.tqdm = partial(lm_eval_task.tqdm, disable=True)
    datasets.disable_progress_bars()


def _as_json(messages: Any, *, add_generation_prompt: bool = True) -> JsonChatStr:
    """Write the messages of a chat as lm-eval's client for chat endpoints does."""
    return JsonChatStr(json.dumps(messages, ensure_ascii=False))


def _in_order(requests: list[Any]) -> list[Any]:
    return sorted(requests, key=lambda request: int(request.idx))


def _size_of(available: int, limit: float | None) -> int:
    """Return the number of documents that a limit leaves, as lm-eval computes it from a number or a share."""
    if not limit:
        return available
    if limit < 1:
        return math.ceil(available * limit)
    return min(int(limit), available)
