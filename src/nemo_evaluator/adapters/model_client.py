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

_GENERATION = (
    "temperature",
    "max_tokens",
    "top_p",
    "seed",
    "stop",
    "frequency_penalty",
    "presence_penalty",
)


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
        generation: dict[str, Any] = {}
        for name in _GENERATION:
            value = getattr(self, name)
            if value is not None:
                generation[name] = value
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
        # What solvers and judges ask through.
        self.client = open_client(endpoint)

    async def chat(
        self,
        prompt: str | None = None,
        system: str | None = None,
        messages: Sequence[Message] | None = None,
    ) -> ModelResponse:
        """Ask with a prompt and a system text, or with ready messages, which win and are sent as they are."""
        return await self._ask(
            _messages(prompt or "", system) if messages is None else messages, prompt or "", system
        )

    async def vlm_chat(
        self,
        prompt: str,
        images: Sequence[str | Path],
        system: str | None = None,
        detail: str = "auto",
    ) -> ModelResponse:
        """Ask about images: URLs, data URIs, or local files, which are sent as data URIs."""
        urls = await asyncio.gather(*(asyncio.to_thread(image_url, image) for image in images))
        parts: list[JsonDict] = []
        for u in urls:
            parts.append({"type": "image_url", "image_url": {"url": u, "detail": detail}})
        return await self._ask(
            _messages([*parts, {"type": "text", "text": prompt}], system), prompt, system
        )

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
        """Ask with tools at hand; overrides replace generation settings or add fields to the request."""
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
        return (await self.client.embed([text]))[0]

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
    if system:
        head: list[Message] = [{"role": "system", "content": system}]
    else:
        head = []
    return [*head, {"role": "user", "content": content}]
