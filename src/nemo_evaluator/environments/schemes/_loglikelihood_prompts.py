"""Log-likelihood requests in the model's tokens, split as lm-eval does it and checked against the server."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HFValidationError
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from tokenizers import Tokenizer

from nemo_evaluator.core.errors import RequestRejectedError, UsageError
from nemo_evaluator.core.types import PromptRequest
from nemo_evaluator.models import Client

_GIVE: Final = "params: {tokenizer: FOLDER}, the folder of the model's tokenizer.json"
# Texts with a surprising last word reveal log-probabilities that are shifted by one token.
_PROBES: Final = ("The capital of France xylophone", "one two three four seventeen")
_CLOSE_ENOUGH: Final = 0.25


class LoglikelihoodPrompts:
    """Writes requests for the log-likelihood of texts, as token IDs.

    The tokenizer is the given one, else that of the model's name on the hub, else the server's own. Without any, the
    server splits the text, and its offsets show where the scored part begins.

    Args:
        tokenizer: A ``tokenizer.json``, its folder, or a name on the hub; None to find it by the model.
        max_length: The maximum length of a prompt in tokens.
    """

    def __init__(self, tokenizer: str | None, max_length: int) -> None:
        # One token is always generated.
        self._longest = max_length - 1
        self._tokenizer: Tokenizer | None = None
        # Whether this class splits texts into tokens, with the tokenizer or with the server's help.
        self._splits = False
        self._prefix: int | None = None
        self._client: Client | None = None
        self._last: tuple[str, list[int]] = "", []
        if tokenizer is not None:
            self._load(_tokenizer_file(tokenizer))

    async def use_model(self, client: Client) -> None:
        """Find the model's tokenizer, if none was given."""
        self._client = client
        if self._splits:
            return
        for name in (str(client.endpoint.identity.get("model", "")), client.endpoint.model):
            # A name without a slash is the server's own name for the model, not a name on the hub.
            if "/" in name and not self._splits:
                with suppress(UsageError):
                    self._load(_tokenizer_file(name))
        if not self._splits and await client.tokenize("a") is not None:
            self._splits = True
            self._prefix = next(iter(await client.tokenize("", special=True) or ()), None)

    async def check_model(self) -> None:
        """Check that the server returns log-likelihoods of prompts, and that they agree with those of generated tokens.

        Raises:
            RequestRejectedError: They do not agree; the hint says how to fix it.
        """
        client = self._client
        if client is None:
            return
        for context in _PROBES:
            prompt = await self._ids(context) if self._splits else context
            token = await client.next_token(prompt)
            request = await self.pair(context, token.text or ".")
            assert request.scored_from is not None
            prompt_logprob = json.loads(
                (await client.loglikelihood(request.prompt, request.scored_from)).content
            )[0]
            is_one_token = (
                isinstance(request.prompt, str) or len(request.prompt) == request.scored_from + 1
            )
            if (
                token.logprob is not None
                and token.text
                and is_one_token
                and abs(prompt_logprob - token.logprob) > _CLOSE_ENOUGH
            ):
                raise RequestRejectedError(
                    f"{client.endpoint.name}: the log-probabilities of prompts are not those of generation: "
                    f"{token.text!r} after {context!r} has {prompt_logprob:.3f}, generated it has {token.logprob:.3f}",
                    hint="some servers (llama-cpp-python) are one token off; use vLLM, SGLang or llama-server, and "
                    "check that params.tokenizer is the model's",
                )

    async def pair(self, context: str, continuation: str) -> PromptRequest:
        """Return the request for the log-likelihood of a continuation.

        Args:
            context: The text before the continuation.
            continuation: The text to score.

        Raises:
            UsageError: The request needs a tokenizer, and there is none.
        """
        if not self._splits:
            if not context:
                raise _lacking("scores a text without context")
            return PromptRequest(context + continuation, len(context.rstrip()))
        split = len(context.rstrip())
        context, continuation = context[:split], context[split:] + continuation
        if not context:
            scored_ids = await self._ids(continuation)
            prefix = self._needed_prefix()
            if scored_ids[:1] != [prefix]:
                context_ids = [prefix]
            else:
                context_ids = scored_ids[:1]
                scored_ids = scored_ids[1:]
        else:
            # Consecutive requests often share a context: the choices of one question.
            if self._last[0] == context:
                context_ids = self._last[1]
            else:
                context_ids = await self._ids(context)
            self._last = context, context_ids
            scored_ids = (await self._ids(context + continuation))[len(context_ids) :]
        return self._request(context_ids, scored_ids)

    async def rolling(self, text: str) -> list[PromptRequest]:
        """Return the requests for the log-likelihood of a whole text, one per window.

        Raises:
            UsageError: There is no tokenizer.
        """
        if not self._splits:
            raise _lacking("scores whole texts")
        prefix = self._needed_prefix()
        window_length = self._longest - 1
        windows = get_rolling_token_windows(
            await self._ids(text), prefix, max_seq_len=window_length, context_len=1
        )
        return [self._request(*make_disjoint_window(window)) for window in windows]

    def _request(self, head: list[int], rest: list[int]) -> PromptRequest:
        """Join context and scored tokens, cut from the left to the maximum length."""
        token_ids = (head + rest)[-self._longest :]
        return PromptRequest(token_ids, max(len(token_ids) - len(rest), 1))

    async def _ids(self, text: str) -> list[int]:
        """Return the token IDs of a text, from the tokenizer or the server."""
        if self._tokenizer is not None:
            return list(self._tokenizer.encode(text, add_special_tokens=False).ids)
        assert self._client is not None
        ids = await self._client.tokenize(text)
        if ids is None:
            raise RequestRejectedError(
                f"{self._client.endpoint.name} no longer tokenizes", hint=_GIVE
            )
        return ids

    def _load(self, file: Path) -> None:
        """Load a tokenizer file."""
        self._tokenizer = Tokenizer.from_file(str(file))
        self._splits = True
        self._prefix = _first_token(self._tokenizer, file.parent / "tokenizer_config.json")

    def _needed_prefix(self) -> int:
        """Return the token before a text; raise UsageError if the tokenizer has none."""
        if self._prefix is None:
            hint = f"tokenizer_config.json beside tokenizer.json must name bos_token or eos_token; {_GIVE}"
            raise UsageError("the tokenizer has no token for the beginning of a text", hint=hint)
        return self._prefix


def _tokenizer_file(where: str) -> Path:
    """Return the path of ``tokenizer.json``: the file itself, in a folder, or downloaded from the hub with its
    settings.

    Raises:
        UsageError: There is no such tokenizer.
    """
    path = Path(where)
    if path.is_dir():
        file = path / "tokenizer.json"
    else:
        file = path
    if file.is_file():
        return file
    try:
        hf_hub_download(where, "tokenizer_config.json")
        return Path(hf_hub_download(where, "tokenizer.json"))
    except (OSError, HFValidationError) as error:
        message = f"{where!r} is neither a tokenizer.json, nor the folder of one, nor a model of the hub that has one"
        raise UsageError(message, hint=_GIVE) from error


def _first_token(tokenizer: Tokenizer, file: Path) -> int | None:
    """Return the token before a text: the tokenizer's beginning-of-text token, else its end-of-text token."""
    if file.is_file():
        config: Any | dict[Any, Any] = json.loads(file.read_text(encoding="utf-8"))
    else:
        config = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        if isinstance(token, dict):
            token_text = token.get("content")
        else:
            token_text = token
        if token_text:
            token_id = tokenizer.token_to_id(token_text)
        else:
            token_id = None
        if token_id is not None:
            return int(token_id)
    return None


def _lacking(what: str) -> UsageError:
    """Return the error for a task that needs the model's tokenizer."""
    return UsageError(f"the task {what}, which needs the model's tokenizer", hint=_GIVE)
