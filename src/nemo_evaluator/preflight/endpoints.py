"""Checks of endpoints before a run: whether they answer, and whether prices are known for budgets in USD."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Final

from nemo_evaluator.config import BenchmarkConfig, EvalConfig
from nemo_evaluator.core.errors import AuthError, NelError, NotFoundError
from nemo_evaluator.core.types import Message
from nemo_evaluator.models import Client, endpoint_of
from nemo_evaluator.models.cost import price_of
from nemo_evaluator.models.retry import RetryConfig
from nemo_evaluator.preflight.obstacle import ConfigPath, Obstacle, obstacle_of

_PRICE: Final = (
    "add price: {input: ..., output: ...} (USD per million tokens) to the service, "
    "or limit tokens instead of usd"
)
_QUESTION: Final[list[Message]] = [{"role": "user", "content": "Hi"}]
_ANSWER_TOKENS: Final = 16
_TIMEOUT: Final = 60.0
# The setting that is wrong when a server gives an error; all other errors point to the URL.
_SETTING_OF_ERROR: Final[dict[type[NelError], str]] = {
    AuthError: "api_key",
    NotFoundError: "model",
}


async def ping(config: EvalConfig) -> AsyncIterator[Obstacle]:
    """Send each endpoint, including the judges', one short question.

    Yields:
        A problem for each endpoint that does not answer, refuses the key, or does not know the model.
    """
    for name in config.api_services():
        endpoint = endpoint_of(name, config.services[name], url=config.base_url(name))
        without_retries = replace(endpoint, retry=RetryConfig(max_retries=0))
        async with Client(without_retries) as client:
            request = client.chat(_QUESTION, generation={"max_tokens": _ANSWER_TOKENS})
            try:
                await asyncio.wait_for(request, _TIMEOUT)
            except TimeoutError:
                path = ("services", name, "url")
                yield Obstacle(
                    path, f"no answer within {_TIMEOUT:.0f} s", "is the server overloaded?"
                )
            except NelError as error:
                setting = _SETTING_OF_ERROR.get(type(error), "url")
                hint = error.hint or "check the service's url, model and api_key"
                yield Obstacle(("services", name, setting), error.message, hint)


def missing_prices(config: EvalConfig) -> Iterator[Obstacle]:
    """Yield budgets in USD that cannot be enforced because the price of a service is unknown."""
    limits_run = config.budget is not None and config.budget.usd is not None
    for index, bench in enumerate(config.benchmarks):
        own_limit = _limit_in_money(bench)
        if own_limit is not None:
            path: ConfigPath = ("benchmarks", index, own_limit, "usd")
        elif limits_run:
            path = ("budget", "usd")
        else:
            continue
        for name in _services_of(bench):
            if name not in config.model_services():
                continue
            try:
                endpoint = endpoint_of(name, config.services[name], url=config.base_url(name))
                price = price_of(endpoint)
            except NelError as error:
                yield obstacle_of(error, ("services", name))
                continue
            if price is None:
                yield Obstacle(path, f"a budget in USD needs the price of service {name!r}", _PRICE)


def _limit_in_money(bench: BenchmarkConfig) -> str | None:
    """Return the block of a benchmark that limits its cost in USD; None if there is none."""
    if bench.budget is not None and bench.budget.usd is not None:
        return "budget"
    if bench.step_limits is not None and bench.step_limits.usd is not None:
        return "step_limits"
    return None


def _services_of(bench: BenchmarkConfig) -> list[str]:
    """Return the services that a benchmark uses: its model, then its judges."""
    names = [bench.solver.model_service]
    names += [getattr(metric, "service", None) for metric in bench.scoring.metrics]
    return list(dict.fromkeys(name for name in names if name is not None))
