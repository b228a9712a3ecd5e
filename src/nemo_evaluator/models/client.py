"""The client: asks a model through a ``send`` function and reads its answers."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Self

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

_CHAT = "/chat/completions"
_TEXT = "/completions"
_RESPONSES = "/responses"


def seed_of_repeat(seed: int, repeat: int) -> int:
    """The seed of a repeat: the first keeps the one that was given, the others get seeds derived from it."""
    if repeat == 0:
        return seed
    return int(digest_parts("repeat", seed, repeat), 16) % 2**31


class Client:
    """Asks one endpoint.

    Every method raises a BoundaryError of core.errors once retries are used up. Generation settings given to a call
    win over the endpoint's, field by field; those that are None are left to the endpoint.
    """

    def __init__(
        self, endpoint: Endpoint, send: Send | None = None, *, transport: Transport | None = None
    ) -> None:
        self.endpoint = endpoint
        self.transport = transport or open_transport(endpoint)
        self._send: Send = send or self.transport
        self._base: JsonDict = {"model": endpoint.model, **endpoint.generation}
        self._price = price_of(endpoint)
        # Whether log-likelihoods are asked for token by token, because the server does not echo prompts.
        self._teacher_forcing = False
        pattern = endpoint.reasoning_pattern
        if pattern:
            self._pattern: re.Pattern[str] | None = re.compile(pattern, re.DOTALL)
        else:
            self._pattern = None

    async def chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonDict] | None = None,
        generation: Mapping[str, Any] | None = None,
    ) -> ModelResponse:
        """Ask with chat messages, in the protocol of the endpoint."""
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
        """Ask for the continuation of a text; an endpoint that only chats gets it as a user message."""
        if self.endpoint.protocol != "completions":
            return await self.chat([{"role": "user", "content": prompt}], generation=generation)
        body = self._body(generation)
        body["prompt"] = prompt
        return await self._answer(_TEXT, body, parse_completion)

    async def loglikelihood(self, prompt: str | list[int], start: int) -> ModelResponse:
        """Log-likelihood of a prompt from token or character ``start`` on: ``[logprob, greedy]`` as content.

        Servers that echo the prompt with log-probabilities are asked once; llama.cpp, which does not, token by token.
        """
        body: JsonDict = {
            "model": self.endpoint.model,
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
        }
        replies: list[ModelResponse] = []
        found = None
        if not self._teacher_forcing:
            replies.append(
                await self._answer(_TEXT, body | {"prompt": prompt, "echo": True}, parse_completion)
            )
            found = echoed(replies[0].raw_response, prompt, start)
            self._teacher_forcing = (
                found is None and generated(replies[0].raw_response).token_id is not None
            )
        if found is None and self._teacher_forcing and isinstance(prompt, list):
            tokens = []
            for at in range(start, len(prompt)):
                forced = {"prompt": prompt[:at], "logit_bias": {str(prompt[at]): FORCING}}
                replies.append(await self._answer(_TEXT, body | forced, parse_completion))
                tokens.append(generated(replies[-1].raw_response))
            if [token.token_id for token in tokens] == prompt[start:]:
                found = (
                    sum(token.logprob or 0.0 for token in tokens),
                    all(token.greedy for token in tokens),
                )
        if found is None:
            raise no_loglikelihoods(self.endpoint.name)
        response = together(replies)
        # The one token that is generated, because some servers refuse to generate none, says nothing.
        response.content = dumps(found).decode()
        response.finish_reason = "stop"
        return response

    async def next_token(self, prompt: str | list[int]) -> GeneratedToken:
        """The likeliest next token, with its log-probability where the server gives it."""
        body: JsonDict = {
            "model": self.endpoint.model,
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": 1,
        }
        return generated(
            (await self._answer(_TEXT, body | {"prompt": prompt}, parse_completion)).raw_response
        )

    async def tokenize(self, text: str, *, special: bool = False) -> list[int] | None:
        """The token ids of a text, by the server's own ``/tokenize`` (vLLM, SGLang, llama.cpp); None: it has none.

        ``special`` adds the tokens that the model puts around a text.
        """
        body = {
            "model": self.endpoint.model,
            "prompt": text,
            "content": text,
            "parse_special": False,
        }
        root = replace(self.endpoint, url=self.endpoint.url.removesuffix("/v1"), replicas=())
        async with Client(root) as server:
            try:
                reply = await server._ask(
                    "/tokenize", body | {"add_special": special, "add_special_tokens": special}
                )
            except (NotFoundError, RequestRejectedError):
                return None
        tokens = reply.body.get("tokens")
        if isinstance(tokens, list) and all(type(one) is int for one in tokens):
            return tokens
        return None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order."""
        body = {"model": self.endpoint.model, "input": list(texts)}
        reply = await self._ask("/embeddings", body)
        rows = sorted(reply.body["data"], key=lambda row: row["index"])
        if len(rows) != len(texts):
            raise TransportError(
                f"{self.endpoint.name}: {len(rows)} embeddings for {len(texts)} texts"
            )
        return [row["embedding"] for row in rows]

    def describe(self) -> JsonDict:
        """What may change an answer: the service's part of a fingerprint."""
        return self.endpoint.describe()

    @property
    def stats(self) -> JsonDict:
        """Counts of requests and retries, and the limiter's history."""
        lane = self.transport._lane
        return {
            **asdict(self.transport.stats),
            "limiter": lane.limiter.snapshot() if lane else None,
        }

    async def close(self) -> None:
        """Give the connections back; the pipeline, if there is one, is closed too."""
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
        body = self._base.copy()
        if generation:
            body |= {key: value for key, value in generation.items() if value is not None}
        if "seed" in body and (scope := call_scope.get()) is not None and scope.vary_seed:
            body["seed"] = seed_of_repeat(body["seed"], scope.repeat)
        return body

    async def _ask(self, path: str, body: JsonDict) -> ModelReply:
        reply = await self._send(ModelRequest(path, body, scope=call_scope.get(), whole=True))
        if reply.status >= 400:
            raise error_of(reply, self.endpoint)
        return reply

    async def _answer(
        self, path: str, body: JsonDict, parse: Callable[[JsonDict, str], ModelResponse]
    ) -> ModelResponse:
        reply = await self._ask(path, body)
        try:
            response = parse(reply.body, self.endpoint.model)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            text = f"{self.endpoint.name}: the answer does not follow the protocol ({type(error).__name__}: {error})"
            raise TransportError(text, attempts=reply.attempts) from error
        if self._pattern is not None:
            response.content, cut = cut_pattern(self._pattern, response.content)
            response.reasoning_content = response.reasoning_content or cut
        response.latency_ms = round(reply.latency_ms, 2)
        if reply.queue_ms:
            response.queue_ms = round(reply.queue_ms, 2)
        else:
            response.queue_ms = 0.0
        response.request_body = reply.sent
        response.attempts = reply.attempts
        response.from_cache = reply.from_cache
        response.time_to_first_token_ms = reply.first_token_ms
        if self._price is not None:
            if reply.from_cache:
                response.cost_usd = 0.0
            else:
                response.cost_usd = cost_of(response, self._price, reply.price_share)
        return response
