"""What a call costs: the service's own price, or a packaged one for well-known models."""

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
    loaded = orjson.loads(_PRICES.read_bytes())
    return {name: Price(*row) for name, row in loaded["models"].items()}


def price_of(endpoint: Endpoint) -> Price | None:
    """The price of an endpoint's model, if it is known; a model served on this machine has none."""
    if endpoint.price is not None:
        return endpoint.price
    host = urlsplit(endpoint.url).hostname or ""
    if host == "localhost" or host.startswith("127."):
        return None
    return packaged_prices().get(endpoint.model.lower().rpartition("/")[2])


def batch_share(provider: str) -> float:
    """What is paid of the price for a request in a batch."""
    return float(orjson.loads(_PRICES.read_bytes())["batch"][provider])


def cost_of(response: ModelResponse, price: Price, share: float = 1.0) -> float | None:
    """USD of one answer; None when the server did not say how many tokens it took."""
    usd = tokens_cost(
        price, response.prompt_tokens, response.completion_tokens, cached=response.cached_tokens
    )
    return usd if usd is None else usd * share


def tokens_cost(
    price: Price, prompt: int | None, completion: int | None, cached: int | None = None
) -> float | None:
    """USD of so many tokens."""
    if prompt is None and completion is None:
        return None
    read = min(cached or 0, prompt or 0)
    if price.cached_input is None:
        cheap = price.input
    else:
        cheap = price.cached_input
    fresh = (prompt or 0) - read
    return (fresh * price.input + read * cheap + (completion or 0) * price.output) / 1_000_000
