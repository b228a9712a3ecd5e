"""Log-probabilities in answers of the completions protocol: those of an echoed prompt, and that of one new token."""

from typing import Final

from nemo_evaluator.core.errors import RequestRejectedError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass

# The bias that makes a server take the wanted token; the log-probabilities it reports are those from before the bias.
FORCING: Final = 100


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """The one token that a server generated; None for what it did not say."""

    text: str
    logprob: float | None = None
    greedy: bool = True
    # Said by llama.cpp only.
    token_id: int | None = None


def generated(body: JsonDict) -> GeneratedToken:
    """The generated token: in the lists of the completions protocol or, as llama.cpp has it, in those of chat."""
    choice = body["choices"][0]
    text = choice.get("text") or ""
    found = choice.get("logprobs") or {}
    try:
        if "content" in found:
            one = found["content"][0]
            best = max(
                (top["logprob"] for top in one.get("top_logprobs") or ()), default=one["logprob"]
            )
            return GeneratedToken(
                text, float(one["logprob"]), one["logprob"] >= best, token_id=one.get("id")
            )
        return GeneratedToken(text, float(found["token_logprobs"][0]))
    except (KeyError, IndexError, TypeError, AttributeError):
        return GeneratedToken(text)


def echoed(body: JsonDict, prompt: str | list[int], start: int) -> tuple[float, bool] | None:
    """The log-probability of a prompt from ``start`` on, and whether each token of it was the likeliest.

    None when the server did not give that of the prompt. The last token is the one that was generated.
    """
    try:
        found = body["choices"][0]["logprobs"]
        values = found["token_logprobs"][:-1]
        tops = found["top_logprobs"]
        if isinstance(prompt, list):
            if len(values) != len(prompt):
                return None
        else:
            start = next(
                (at for at, offset in enumerate(found["text_offset"][:-1]) if offset >= start),
                len(values),
            )
        scored = values[start:]
        greedy = all(
            value == max(top.values()) for value, top in zip(scored, tops[start:], strict=False)
        )
        if scored:
            return (sum(scored), greedy)
        return None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError):
        return None


def no_loglikelihoods(service: str) -> RequestRejectedError:
    """The error for a server that does not say how likely a prompt is."""
    text = f"{service} does not give the log-probabilities of a prompt (echo with logprobs)"
    hint = (
        "serve the model with vLLM, SGLang or llama.cpp (which needs token ids: params.tokenizer), "
    )
    return RequestRejectedError(text, hint=hint + "or take a benchmark that generates")
