"""The client: sends requests to a model through a ``send`` function and parses the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from nemo_evaluator.core.errors import NotFoundError, RequestRejectedError, TransportError
from nemo_evaluator.core.files import dumps
from nemo_evaluator.core.hashing import digest_parts
from nemo_evaluator.core.types import JsonDict, Message, ModelResponse
from nemo_evaluator.models.chat import parse_chat
from nemo_evaluator.models.completions import parse_completion, prompt_of
from nemo_evaluator.models.cost import cost_of, price_of
from nemo_evaluator.models.endpoint import Endpoint
from nemo_evaluator.models.faults import error_of
from nemo_evaluator.models.loglikelihood import (
    FORCING,
    GeneratedToken,
    echoed,
    generated,
    no_loglikelihoods,
)
from nemo_evaluator.models.open_transport import open_transport
from nemo_evaluator.models.reasoning import cut_pattern
from nemo_evaluator.models.responses import parse_response, to_responses
from nemo_evaluator.models.transport import Transport
from nemo_evaluator.models.types import ModelReply, ModelRequest, Send, call_scope
from nemo_evaluator.models.usage import together

if TYPE_CHECKING:
    from nemo_evaluator.models.endpoint_description import EndpointDescription
    from nemo_evaluator.models.traffic_counts import ClientCounts

_CHAT = "/chat/completions"
_TEXT = "/completions"
_RESPONSES = "/responses"


def seed_of_repeat(seed: int, repeat: int) -> int:
    """The seed of a repeat: the first keeps the seed of the config, the others get seeds derived from it."""
    if repeat == 0:
        return seed
    return int(digest_parts("repeat", seed, repeat), 16) % 2**31


class Client:
    """A client of one endpoint.

    Every method raises a BoundaryError of core.errors once retries are used up. Generation settings of a call win over
    those of the endpoint, field by field, unless they are None.
    """

    def __init__(
        self, endpoint: Endpoint, send: Send | None = None, *, transport: Transport | None = None
    ) -> None:
        """Set up a client; it connects with the first request.

        Args:
            endpoint: The endpoint.
            send: The pipeline of the service; None to use the transport directly.
            transport: The transport; None for a new one.
        """
        self.endpoint = endpoint
        self.transport = transport or open_transport(endpoint)
        self._send: Send = send or self.transport
        self._base: JsonDict = {"model": endpoint.model, **endpoint.generation}
        self._price = price_of(endpoint)
        # Whether log-likelihoods are requested token by token, because the server does not echo prompts.
        self._teacher_forcing = False
        self._pattern: re.Pattern[str] | None = None
        if endpoint.reasoning_pattern:
            self._pattern = re.compile(endpoint.reasoning_pattern, re.DOTALL)

    async def chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonDict] | None = None,
        generation: Mapping[str, Any] | None = None,
    ) -> ModelResponse:
        """Send chat messages, in the protocol of the endpoint.

        Args:
            messages: The messages.
            tools: The tools that the model may call, as in chat completions.
            generation: Generation settings of this call.

        Returns:
            The first choice of the answer.
        """
        if self.endpoint.protocol == "completions":
            return await self.complete(prompt_of(list(messages)), generation)
        body = self._body(generation)
        body["messages"] = messages
        if tools:
            body["tools"] = tools
        path = _CHAT
        parse = parse_chat
        if self.endpoint.protocol == "responses":
            path = _RESPONSES
            body = to_responses(body)
            parse = parse_response
        return await self._answer(path, body, parse)

    async def complete(
        self, prompt: str, generation: Mapping[str, Any] | None = None
    ) -> ModelResponse:
        """Request the continuation of a text; a chat endpoint receives the text as a user message."""
        if self.endpoint.protocol != "completions":
            return await self.chat([{"role": "user", "content": prompt}], generation=generation)
        body = self._body(generation)
        body["prompt"] = prompt
        return await self._answer(_TEXT, body, parse_completion)

    async def loglikelihood(self, prompt: str | list[int], start: int) -> ModelResponse:
        """The log-likelihood of the end of a prompt.

        Servers that echo the prompt with log-probabilities get one request. llama.cpp, which does not, gets one
        request per token.

        Args:
            prompt: The prompt, as text or token ids.
            start: The token or character at which the scored end begins.

        Returns:
            A response with ``[logprob, greedy]`` as content.

        Raises:
            RequestRejectedError: The server does not report log-probabilities of prompts.
        """
        replies: list[ModelResponse] = []
        score: tuple[float, bool] | None = None
        if not self._teacher_forcing:
            reply = await self._one_token(prompt=prompt, echo=True)
            replies.append(reply)
            score = echoed(reply.raw_response, prompt, start)
            if score is None:
                # Only llama.cpp reports the id of the token.
                self._teacher_forcing = generated(reply.raw_response).token_id is not None
        if score is None and self._teacher_forcing and isinstance(prompt, list):
            forced_replies = await self._forced(prompt, start)
            replies += forced_replies
            score = _score_of_forced(forced_replies, prompt[start:])
        if score is None:
            raise no_loglikelihoods(self.endpoint.name)
        response = together(replies)
        # The generated token is ignored; it is requested only because some servers refuse to generate none.
        response.content = dumps(score).decode()
        response.finish_reason = "stop"
        return response

    async def next_token(self, prompt: str | list[int]) -> GeneratedToken:
        """The most likely next token, with its log-probability if the server reports it."""
        reply = await self._one_token(prompt=prompt)
        return generated(reply.raw_response)

    async def _forced(self, prompt: list[int], start: int) -> list[ModelResponse]:
        """One reply for each token of a prompt from ``start`` on, with that token forced."""
        replies: list[ModelResponse] = []
        for index in range(start, len(prompt)):
            bias = {str(prompt[index]): FORCING}
            reply = await self._one_token(prompt=prompt[:index], logit_bias=bias)
            replies.append(reply)
        return replies

    async def _one_token(self, **fields: Any) -> ModelResponse:
        """Request one token with its log-probability."""
        body: JsonDict = {
            "model": self.endpoint.model,
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
            **fields,
        }
        return await self._answer(_TEXT, body, parse_completion)

    async def tokenize(self, text: str, *, special: bool = False) -> list[int] | None:
        """The token ids of a text, from the server's own ``/tokenize`` (vLLM, SGLang, llama.cpp).

        Args:
            text: The text.
            special: Add the tokens that the model puts around a text.

        Returns:
            The ids; None if the server has no such route.
        """
        body = {
            "model": self.endpoint.model,
            "prompt": text,
            "content": text,
            "parse_special": False,
            "add_special": special,
            "add_special_tokens": special,
        }
        root = replace(self.endpoint, url=self.endpoint.url.removesuffix("/v1"), replicas=())
        async with Client(root) as server:
            try:
                reply = await server._ask("/tokenize", body)
            except (NotFoundError, RequestRejectedError):
                return None
        tokens = reply.body.get("tokens")
        if isinstance(tokens, list) and all(type(token) is int for token in tokens):
            return tokens
        return None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        body = {"model": self.endpoint.model, "input": list(texts)}
        reply = await self._ask("/embeddings", body)
        rows = sorted(reply.body["data"], key=lambda row: row["index"])
        if len(rows) != len(texts):
            text = f"{self.endpoint.name}: {len(rows)} embeddings for {len(texts)} texts"
            raise TransportError(text)
        return [row["embedding"] for row in rows]

    def describe(self) -> EndpointDescription:
        """The settings that may change an answer: the service's part of a fingerprint."""
        return self.endpoint.describe()

    @property
    def stats(self) -> ClientCounts:
        """Counts of requests and retries, and the limiter's history."""
        lane = self.transport._lane
        limiter = lane.limiter.snapshot() if lane else None
        return {**self.transport.stats.to_dict(), "limiter": limiter}

    async def close(self) -> None:
        """Release the connections, and close the pipeline if there is one."""
        closer = getattr(self._send, "close", None)
        if closer is not None:
            await closer()
        if self._send is not self.transport:
            await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _body(self, generation: Mapping[str, Any] | None) -> JsonDict:
        """A request body with the model and the generation settings."""
        body = self._base.copy()
        if generation:
            body |= {key: value for key, value in generation.items() if value is not None}
        if "seed" in body:
            scope = call_scope.get()
            if scope is not None and scope.vary_seed:
                body["seed"] = seed_of_repeat(body["seed"], scope.repeat)
        return body

    async def _ask(self, path: str, body: JsonDict) -> ModelReply:
        """Send a request; an error status raises its typed error."""
        reply = await self._send(ModelRequest(path, body, scope=call_scope.get(), whole=True))
        if reply.status >= 400:
            raise error_of(reply, self.endpoint)
        return reply

    async def _answer(
        self, path: str, body: JsonDict, parse: Callable[[JsonDict, str], ModelResponse]
    ) -> ModelResponse:
        """Send a request and parse the answer.

        Raises:
            TransportError: The answer does not follow the protocol.
        """
        reply = await self._ask(path, body)
        try:
            response = parse(reply.body, self.endpoint.model)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            text = f"{self.endpoint.name}: the answer does not follow the protocol ({reason})"
            raise TransportError(text, attempts=reply.attempts) from error
        if self._pattern is not None:
            response.content, removed_text = cut_pattern(self._pattern, response.content)
            response.reasoning_content = response.reasoning_content or removed_text
        response.latency_ms = round(reply.latency_ms, 2)
        response.queue_ms = round(reply.queue_ms, 2) if reply.queue_ms else 0.0
        response.request_body = reply.sent
        response.attempts = reply.attempts
        response.from_cache = reply.from_cache
        response.time_to_first_token_ms = reply.first_token_ms
        if self._price is not None:
            if reply.from_cache:
                response.cost_usd = 0.0
            else:
                response.cost_usd = cost_of(
                    response, self._price, reply.price_share * reply.payments
                )
        return response


def _score_of_forced(
    replies: Sequence[ModelResponse], tokens: list[int]
) -> tuple[float, bool] | None:
    """The log-likelihood of forced tokens, and whether each was the most likely; None if the server took others."""
    generated_tokens = [generated(reply.raw_response) for reply in replies]
    if [token.token_id for token in generated_tokens] != tokens:
        return None
    logprob = sum(token.logprob or 0.0 for token in generated_tokens)
    greedy = all(token.greedy for token in generated_tokens)
    return logprob, greedy
