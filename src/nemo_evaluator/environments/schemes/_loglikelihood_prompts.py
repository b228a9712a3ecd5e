"""Log-likelihood requests in the tokens of the model: split as lm-eval does it, and checked against the server."""

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
# Texts whose last word is a surprise: log-probabilities that are one token off show at once.
_PROBES: Final = ("The capital of France xylophone", "one two three four seventeen")
_CLOSE_ENOUGH: Final = 0.25


class LoglikelihoodPrompts:
    """Writes requests for the log-likelihood of texts in token ids.

    The tokenizer is the one that was given, or that of the model's name on the hub, or the server's own. Without any,
    the server splits the text, and its offsets tell where the scored part begins.
    """

    def __init__(self, tokenizer: str | None, max_length: int) -> None:
        # One token is always generated.
        self._longest = max_length - 1
        self._tokenizer: Tokenizer | None = None
        # Whether texts are split here, by the tokenizer or else by the server.
        self._splits = False
        self._prefix: int | None = None
        self._client: Client | None = None
        self._last: tuple[str, list[int]] = "", []
        if tokenizer is not None:
            self._load(_tokenizer_file(tokenizer))

    async def use_model(self, client: Client) -> None:
        """Find the tokenizer of the model, if none was given."""
        self._client = client
        if self._splits:
            return
        for name in (str(client.endpoint.identity.get("model", "")), client.endpoint.model):
            # A name without a slash is what the server calls the model, not where it comes from.
            if "/" in name and not self._splits:
                with suppress(UsageError):
                    self._load(_tokenizer_file(name))
        if not self._splits and await client.tokenize("a") is not None:
            self._splits = True
            self._prefix = next(iter(await client.tokenize("", special=True) or ()), None)

    async def check_model(self) -> None:
        """Check before the first problem that the server returns log-likelihoods of prompts and that its replies agree.

        Raises RequestRejectedError with the fix.
        """
        client = self._client
        if client is None:
            return
        for text in _PROBES:
            token = await client.next_token(await self._ids(text) if self._splits else text)
            request = await self.pair(text, token.text or ".")
            assert request.scored_from is not None
            scored = json.loads(
                (await client.loglikelihood(request.prompt, request.scored_from)).content
            )[0]
            alone = (
                isinstance(request.prompt, str) or len(request.prompt) == request.scored_from + 1
            )
            if (
                token.logprob is not None
                and token.text
                and alone
                and abs(scored - token.logprob) > _CLOSE_ENOUGH
            ):
                raise RequestRejectedError(
                    f"{client.endpoint.name}: the log-probabilities of prompts are not those of generation: "
                    f"{token.text!r} after {text!r} has {scored:.3f}, generated it has {token.logprob:.3f}",
                    hint="some servers (llama-cpp-python) are one token off; use vLLM, SGLang or llama-server, and "
                    "check that params.tokenizer is the model's",
                )

    async def pair(self, context: str, continuation: str) -> PromptRequest:
        """The request for the log-likelihood of a continuation."""
        if not self._splits:
            if not context:
                raise _lacking("scores a text without context")
            return PromptRequest(context + continuation, len(context.rstrip()))
        split = len(context.rstrip())
        context, continuation = context[:split], context[split:] + continuation
        if not context:
            rest = await self._ids(continuation)
            prefix = self._needed_prefix()
            if rest[:1] != [prefix]:
                head = [prefix]
            else:
                head = rest[:1]
                rest = rest[1:]
        else:
            # The choices of a question follow each other.
            if self._last[0] == context:
                head = self._last[1]
            else:
                head = await self._ids(context)
            self._last = context, head
            rest = (await self._ids(context + continuation))[len(head) :]
        return self._request(head, rest)

    async def rolling(self, text: str) -> list[PromptRequest]:
        """The requests for the log-likelihood of a whole text, window by window."""
        if not self._splits:
            raise _lacking("scores whole texts")
        prefix = self._needed_prefix()
        longest = self._longest - 1
        windows = get_rolling_token_windows(
            await self._ids(text), prefix, max_seq_len=longest, context_len=1
        )
        return [self._request(*make_disjoint_window(window)) for window in windows]

    def _request(self, head: list[int], rest: list[int]) -> PromptRequest:
        whole = (head + rest)[-self._longest :]
        return PromptRequest(whole, max(len(whole) - len(rest), 1))

    async def _ids(self, text: str) -> list[int]:
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
        self._tokenizer = Tokenizer.from_file(str(file))
        self._splits = True
        self._prefix = _first_token(self._tokenizer, file.parent / "tokenizer_config.json")

    def _needed_prefix(self) -> int:
        if self._prefix is None:
            hint = f"tokenizer_config.json beside tokenizer.json must name bos_token or eos_token; {_GIVE}"
            raise UsageError("the tokenizer has no token for the beginning of a text", hint=hint)
        return self._prefix


def _tokenizer_file(where: str) -> Path:
    """``tokenizer.json`` itself, in a folder, or of a model of the hub (its settings are fetched with it)."""
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
        text = f"{where!r} is neither a tokenizer.json, nor the folder of one, nor a model of the hub that has one"
        raise UsageError(text, hint=_GIVE) from error


def _first_token(tokenizer: Tokenizer, file: Path) -> int | None:
    """The token before a text: the tokenizer's beginning-of-text token, else its end-of-text token."""
    if file.is_file():
        config: Any | dict[Any, Any] = json.loads(file.read_text(encoding="utf-8"))
    else:
        config = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        if isinstance(token, dict):
            text = token.get("content")
        else:
            text = token
        if text:
            found = tokenizer.token_to_id(text)
        else:
            found = None
        if found is not None:
            return int(found)
    return None


def _lacking(what: str) -> UsageError:
    return UsageError(f"the task {what}, which needs the model's tokenizer", hint=_GIVE)
