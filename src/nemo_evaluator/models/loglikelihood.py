"""Log-probabilities in answers of the completions protocol: of an echoed prompt, and of one generated token."""

from typing import Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass

# The bias that makes a server take the wanted token; the log-probabilities it reports are those from before the bias.
FORCING: Final = 100


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """The one token that a server generated; None for values that it did not report."""

    text: str
    logprob: float | None = None
    greedy: bool = True
    # Only llama.cpp reports it.
    token_id: int | None = None


def generated(body: JsonDict) -> GeneratedToken:
    """The generated token, from the lists of the completions protocol or, in llama.cpp's answers, of chat."""
    choice = body["choices"][0]
    text = choice.get("text") or ""
    logprobs = choice.get("logprobs") or {}
    try:
        if "content" not in logprobs:
            return GeneratedToken(text, float(logprobs["token_logprobs"][0]))
        token = logprobs["content"][0]
        logprob = token["logprob"]
        alternatives = [top["logprob"] for top in token.get("top_logprobs") or ()]
        greedy = logprob >= max(alternatives, default=logprob)
        return GeneratedToken(text, float(logprob), greedy, token_id=token.get("id"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return GeneratedToken(text)


def echoed(body: JsonDict, prompt: str | list[int], start: int) -> tuple[float, bool] | None:
    """The log-probability of the end of an echoed prompt.

    Args:
        body: The answer. Its last token is the generated one.
        prompt: The prompt.
        start: The token or character at which the end begins.

    Returns:
        The log-probability, and whether each token was the most likely one; None if the server did not echo the prompt.
    """
    try:
        logprobs = body["choices"][0]["logprobs"]
        values = logprobs["token_logprobs"][:-1]
        alternatives = logprobs["top_logprobs"]
        if isinstance(prompt, list):
            if len(values) != len(prompt):
                return None
            first_token = start
        else:
            first_token = _first_token(logprobs["text_offset"][:-1], start, default=len(values))
        scored = values[first_token:]
        if not scored:
            return None
        pairs = zip(scored, alternatives[first_token:], strict=False)
        greedy = all(value == max(most_likely.values()) for value, most_likely in pairs)
        return sum(scored), greedy
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return None


def _first_token(offsets: list[int], start: int, *, default: int) -> int:
    """The index of the first token that begins at character ``start`` or later."""
    for index, offset in enumerate(offsets):
        if offset >= start:
            return index
    return default


def no_loglikelihoods(service: str) -> RequestRejectedError:
    """The error for a server that does not report log-probabilities of prompts."""
    text = f"{service} does not give the log-probabilities of a prompt (echo with logprobs)"
    hint = (
        "serve the model with vLLM, SGLang or llama.cpp (which needs token ids: params.tokenizer), "
    )
    return RequestRejectedError(text, hint=hint + "or take a benchmark that generates")
