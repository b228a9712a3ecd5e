"""The cost of calls: by the price of the service, or a packaged price of a well-known model."""

from functools import cache
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import orjson

from nemo_evaluator.core.types import ModelResponse
from nemo_evaluator.models.endpoint import Endpoint, Price

_PRICES: Final = Path(__file__).with_name("prices.json")


@cache
def packaged_prices() -> dict[str, Price]:
    """Prices that come with the package, by model name."""
    price_file = orjson.loads(_PRICES.read_bytes())
    return {name: Price(*row) for name, row in price_file["models"].items()}


def price_of(endpoint: Endpoint) -> Price | None:
    """The price of an endpoint's model, if it is known; a model served on this machine has none."""
    if endpoint.price is not None:
        return endpoint.price
    host = urlsplit(endpoint.url).hostname or ""
    if host == "localhost" or host.startswith("127."):
        return None
    return packaged_prices().get(endpoint.model.lower().rpartition("/")[2])


def batch_share(provider: str) -> float:
    """The share of the price that a request in a batch costs."""
    return float(orjson.loads(_PRICES.read_bytes())["batch"][provider])


def cost_of(response: ModelResponse, price: Price, share: float = 1.0) -> float | None:
    """The cost of one answer in USD; None if the server did not report its tokens."""
    usd = tokens_cost(
        price, response.prompt_tokens, response.completion_tokens, cached=response.cached_tokens
    )
    return usd if usd is None else usd * share


def tokens_cost(
    price: Price, prompt: int | None, completion: int | None, cached: int | None = None
) -> float | None:
    """The cost of tokens in USD; cached ones are part of the prompt."""
    if prompt is None and completion is None:
        return None
    prompt_tokens = prompt or 0
    cached_tokens = min(cached or 0, prompt_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    fresh_cost = (prompt_tokens - cached_tokens) * price.input
    cached_cost = cached_tokens * cached_price
    completion_cost = (completion or 0) * price.output
    return (fresh_cost + cached_cost + completion_cost) / 1_000_000
