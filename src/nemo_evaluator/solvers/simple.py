"""The simple solver: one model call per problem."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from nemo_evaluator.config import GenerationConfig
from nemo_evaluator.config.fields import ServiceName
from nemo_evaluator.config.solver_base import SolverBase
from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.kinds import Kind
from nemo_evaluator.core.types import (
    JsonDict,
    Message,
    ModelResponse,
    PromptRequest,
    SeedResult,
    SolveResult,
)
from nemo_evaluator.models import Client
from nemo_evaluator.models.images import image_url
from nemo_evaluator.models.usage import together

if TYPE_CHECKING:
    from nemo_evaluator.adapters.model_client import ModelClient
    from nemo_evaluator.solvers.base import SolverContext

ImageDetail = Literal["auto", "low", "high"]
# Chat endpoints accept at most this many stop strings; the reply is cut at the others here.
_STOPS: Final = 4


class SimpleSolverConfig(SolverBase):
    """One model call per problem."""

    type: Literal["simple"] = "simple"
    service: ServiceName = Field(description="The model.")
    system_prompt: str | None = Field(None, description="System prompt.")
    generation: GenerationConfig | None = Field(
        None, description="Generation settings over those of the service."
    )
    image_detail: ImageDetail = Field("auto", description="Resolution of images.")


class SimpleSolver:
    """Makes one model call per problem in the protocol of the service: messages for chat, one text for completions.

    The solver's system prompt replaces the problem's own; its generation settings override the service's, field by
    field. Images are sent whenever the problem has them and the protocol is chat.

    Attributes:
        completes: Whether to complete texts; None to follow the protocol of the service.
        client: The client of the model.
    """

    completes: ClassVar[bool | None] = None

    def __init__(
        self,
        client: Client | ModelClient,
        system_prompt: str | None = None,
        *,
        generation: JsonDict | None = None,
        image_detail: ImageDetail = "auto",
    ) -> None:
        """Create a solver.

        Args:
            client: The client of the model.
            system_prompt: A system prompt that replaces the problem's own.
            generation: Generation settings that override the service's.
            image_detail: The resolution of images.
        """
        inner: Any = getattr(client, "client", client)
        self.client: Client = inner
        self._system = system_prompt
        self._generation = generation
        self._detail = image_detail
        by_protocol = self.completes is None and self.client.endpoint.protocol == "completions"
        self._completions = self.completes or by_protocol

    async def solve(self, task: SeedResult) -> SolveResult:
        """Answer one problem with one model call, or with the requests that the problem lists.

        Args:
            task: The problem.

        Raises:
            BoundaryError: The model failed.
            SeedError: An image of the problem does not exist.
        """
        if task.requests is not None:
            return await send_all(self.client, task.requests, self._generation)
        if self._completions:
            text = task.prompt
            system = self._system or task.system
            if system:
                text = f"{system}\n\n{text}"
            reply = await self.client.complete(text, generation=self._generation)
        else:
            messages = messages_for(task, self._system, self._detail)
            reply = await self.client.chat(messages, generation=self._generation)
        return SolveResult(response=reply.content, model_response=reply)

    def describe(self) -> JsonDict:
        """Return the settings that change answers."""
        return {
            "type": "simple",
            "system_prompt": self._system,
            "generation": self._generation or {},
            "image_detail": self._detail,
            "completions": self._completions,
        }

    async def close(self) -> None:
        """Close nothing: the client belongs to the caller who created it."""


def messages_for(
    task: SeedResult, system_prompt: str | None, detail: str = "auto"
) -> list[Message]:
    """Build the chat messages of a problem.

    Args:
        task: The problem.
        system_prompt: A system prompt that replaces the problem's own, or None.
        detail: The resolution of images.

    Raises:
        SeedError: An image of the problem does not exist.
    """
    if task.messages is None:
        messages: list[Message] = [{"role": "user", "content": task.prompt}]
        system = system_prompt or task.system
    else:
        messages = list(task.messages)
        system = system_prompt
        if system_prompt:
            messages = [message for message in messages if message.get("role") != "system"]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    if task.images:
        return _with_images(messages, task.images, detail)
    return messages


def _with_images(messages: list[Message], images: list[Any], detail: str) -> list[Message]:
    """Put images before the text of the last user message, unless that message has images already."""
    try:
        urls = [image_url(image) for image in images]
    except FileNotFoundError as error:
        raise SeedError(str(error)) from error
    image_parts: list[JsonDict] = []
    for url in urls:
        image_parts.append({"type": "image_url", "image_url": {"url": url, "detail": detail}})
    user_indexes = [index for index, item in enumerate(messages) if item.get("role") == "user"]
    if not user_indexes:
        return [*messages, {"role": "user", "content": image_parts}]
    last_index = user_indexes[-1]
    user_message = messages[last_index]
    content = user_message.get("content")
    if not isinstance(content, list):
        content = [{"type": "text", "text": content or ""}]
    elif any(part.get("type") == "image_url" for part in content):
        return messages
    messages_with_images = list(messages)
    messages_with_images[last_index] = {**user_message, "content": image_parts + content}
    return messages_with_images


async def send_all(
    client: Client, requests: Sequence[PromptRequest], generation: JsonDict | None
) -> SolveResult:
    """Send the requests of a problem concurrently and combine the replies.

    Args:
        client: The client of the model.
        requests: The requests of the problem.
        generation: Generation settings that override those of the requests.

    Returns:
        The reply itself for a single request that generates text; otherwise a JSON list with one result per request,
        with the tokens of all replies and the latency of the slowest.

    Raises:
        BoundaryError: The model failed; the other requests are then cancelled.
    """
    if len(requests) == 1 and requests[0].scored_from is None:
        reply = await _send(client, requests[0], generation)
        return SolveResult(reply.content, reply)
    tasks = [asyncio.ensure_future(_send(client, request, generation)) for request in requests]
    try:
        replies = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    results: list[Any] = []
    for request, reply in zip(requests, replies, strict=True):
        if request.scored_from is None:
            results.append(reply.content)
        else:
            results.append(json.loads(reply.content))
    combined_reply = _combined(replies)
    combined_reply.content = dumps(results).decode()
    return SolveResult(combined_reply.content, combined_reply)


def _combined(replies: Sequence[ModelResponse]) -> ModelResponse:
    """Combine the facts of concurrent replies: the tokens of all, and the latency of the slowest."""
    combined_reply = together(replies)
    combined_reply.raw_response = {}
    combined_reply.finish_reason = "stop"
    if any(reply.finish_reason == "length" for reply in replies):
        combined_reply.finish_reason = "length"
    combined_reply.attempts = max(reply.attempts for reply in replies)
    combined_reply.latency_ms = max(reply.latency_ms for reply in replies)
    combined_reply.queue_ms = max(reply.queue_ms for reply in replies)
    combined_reply.from_cache = all(reply.from_cache for reply in replies)
    return combined_reply


async def _send(
    client: Client, request: PromptRequest, generation: JsonDict | None
) -> ModelResponse:
    """Send one request; a generated text is cut at the first stop string."""
    if request.scored_from is not None:
        return await client.loglikelihood(request.prompt, request.scored_from)
    settings = request.generation | (generation or {})
    stops: list[str] = settings.get("stop") or []
    if client.endpoint.protocol != "completions" and len(stops) > _STOPS:
        settings["stop"] = stops[:_STOPS]
    if request.messages is not None:
        reply = await client.chat(request.messages, generation=settings)
    else:
        reply = await client.complete(str(request.prompt), generation=settings)
    end = len(reply.content)
    for stop in stops:
        position = reply.content.find(stop)
        if stop and position >= 0:
            end = min(end, position)
    reply.content = reply.content[:end]
    return reply


class ChatSolver(SimpleSolver):
    """The simple solver with a chat protocol: ``ChatSolver(ModelClient(base_url=..., model=...))``."""

    completes = False


class CompletionSolver(SimpleSolver):
    """The simple solver with text completions, for base models; without a client it creates one of its own.

    ::

        CompletionSolver(base_url="http://localhost:8000/v1", model="m", max_tokens=64)
    """

    completes = True

    def __init__(
        self,
        client: Client | ModelClient | None = None,
        system_prompt: str | None = None,
        *,
        generation: JsonDict | None = None,
        **own: Any,
    ) -> None:
        """Create a solver.

        Args:
            client: The client of the model, or None to create one.
            system_prompt: A system prompt that replaces the problem's own.
            generation: Generation settings that override the client's.
            **own: The settings of the client to create, as ``ModelClient`` takes them.

        Raises:
            TypeError: Both a client and settings of a client are given.
        """
        if client is not None and own:
            raise TypeError(f"{', '.join(own)}: settings of the client, which is given already")
        self._own: ModelClient | None = None
        if client is None:
            # Imported here because it loads the whole HTTP client.
            from nemo_evaluator.adapters.model_client import ModelClient  # noqa: PLC0415

            client = self._own = ModelClient(**own, protocol="completions")
        super().__init__(client, system_prompt, generation=generation)

    async def close(self) -> None:
        """Close the client if this solver created it."""
        if self._own is not None:
            await self._own.close()


class VLMSolver(SimpleSolver):
    """The simple solver with a chosen image resolution (``image_detail``)."""

    completes = False


def build(config: SimpleSolverConfig, context: SolverContext) -> SimpleSolver:
    """Build a solver of ``type: simple``."""
    generation: JsonDict | None = None
    if config.generation:
        generation = config.generation.model_dump(exclude_none=True)
    return SimpleSolver(
        context.clients[config.service],
        config.system_prompt,
        generation=generation,
        image_detail=config.image_detail,
    )


KIND: Final = Kind(SimpleSolverConfig, build)
