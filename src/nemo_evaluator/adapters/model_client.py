"""``ModelClient``: the public, one-object client that users of the package write; a thin wrapper over ``Client``."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from nemo_evaluator.adapters.in_process import open_client
from nemo_evaluator.core.secrets import Secret
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse, ToolCallInfo
from nemo_evaluator.models.endpoint import Endpoint, Timeouts
from nemo_evaluator.models.images import image_url
from nemo_evaluator.models.retry import RetryConfig


@dataclass(slots=True)
class ToolCallingResponse:
    """A chat answer with its tool calls."""

    content: str
    tool_calls: list[ToolCallInfo]
    finish_reason: str
    model_response: ModelResponse
    reasoning_content: str | None = None


@dataclass
class ModelClient:
    """Asks a model behind an OpenAI-compatible URL.

    ::

        client = ModelClient(base_url="http://localhost:8000/v1", model="m")
        answer = await client.chat("What is 6 x 7?")
        await client.close()
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    temperature: float | None = None
    max_tokens: int | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    timeout: float = 120.0
    max_concurrent: int = 8
    cache_dir: str | Path | None = None
    retry: RetryConfig = field(default_factory=RetryConfig)
    reasoning_pattern: str | None = None
    protocol: str = "chat_completions"

    def __post_init__(self) -> None:
        """Create the client that sends the requests."""
        settings: dict[str, Any] = {
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": self.stop,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
        }
        generation = {name: value for name, value in settings.items() if value is not None}
        endpoint = Endpoint(
            name=self.model,
            url=self.base_url,
            protocol=self.protocol,
            model=self.model,
            api_key=Secret(self.api_key) if self.api_key else None,
            generation=generation,
            timeouts=Timeouts(first_byte=self.timeout, idle=self.timeout, total=self.timeout),
            retry=self.retry,
            reasoning_pattern=self.reasoning_pattern,
            max_concurrent=self.max_concurrent,
            cache_mode="off" if self.cache_dir is None else "write",
            cache_dir=None if self.cache_dir is None else str(self.cache_dir),
        )
        self.base_url = endpoint.url
        # The client that solvers and judges use.
        self.client = open_client(endpoint)

    async def chat(
        self,
        prompt: str | None = None,
        system: str | None = None,
        messages: Sequence[Message] | None = None,
    ) -> ModelResponse:
        """Send a chat request.

        Args:
            prompt: The text of the user message.
            system: The text of the system message.
            messages: Ready messages; they are sent unchanged, instead of ``prompt`` and ``system``.

        Returns:
            The response of the model.
        """
        text = prompt or ""
        if messages is None:
            messages = _messages(text, system)
        return await self._ask(messages, text, system)

    async def vlm_chat(
        self,
        prompt: str,
        images: Sequence[str | Path],
        system: str | None = None,
        detail: str = "auto",
    ) -> ModelResponse:
        """Send a chat request about images.

        Args:
            prompt: The text of the user message.
            images: URLs, data URIs, or local files, which are sent as data URIs.
            system: The text of the system message.
            detail: The resolution, in OpenAI's terms: ``low``, ``high`` or ``auto``.

        Returns:
            The response of the model.
        """
        urls = await asyncio.gather(*(asyncio.to_thread(image_url, image) for image in images))
        parts: list[JsonDict] = []
        for url in urls:
            parts.append({"type": "image_url", "image_url": {"url": url, "detail": detail}})
        parts.append({"type": "text", "text": prompt})
        return await self._ask(_messages(parts, system), prompt, system)

    async def _ask(
        self, messages: Sequence[Message], prompt: str, system: str | None
    ) -> ModelResponse:
        response = await self.client.chat(messages)
        response.request_prompt = prompt
        response.request_system = system
        return response

    async def chat_with_tools(
        self, messages: Sequence[Message], tools: Sequence[JsonDict], **overrides: Any
    ) -> ToolCallingResponse:
        """Send a chat request with tools; overrides replace generation settings or add fields to the request."""
        response = await self.client.chat(messages, tools=tools, generation=overrides)
        return ToolCallingResponse(
            content=response.content,
            tool_calls=response.tool_calls,
            finish_reason=response.finish_reason,
            model_response=response,
            reasoning_content=response.reasoning_content,
        )

    async def embed(self, text: str) -> list[float]:
        """The vector of a text."""
        vectors = await self.client.embed([text])
        return vectors[0]

    async def embed_batch(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of several texts, in order."""
        return await self.client.embed(texts)

    async def close(self) -> None:
        """Close the connections."""
        await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


def _messages(content: str | list[JsonDict], system: str | None) -> list[Message]:
    messages: list[Message] = []
    if system:
        messages.append({"role": "system", "content": system})
    messages.append({"role": "user", "content": content})
    return messages
