"""Quick mode: builds the config of one benchmark, one endpoint and an optional judge from command-line options."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from nemo_evaluator.config._references import escape
from nemo_evaluator.config.fields import PROTOCOL_OF_PATH
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.values import dataclass

_FILE: Final = Path(__file__).parent / "data" / "providers.yaml"


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """The endpoint of a provider.

    Attributes:
        url: The base URL.
        key: The environment variable that usually holds the API key; None if no key is needed.
        org: The organisation that is put in front of model names without one.
    """

    url: str
    key: str | None = None
    org: str | None = None


@cache
def providers() -> dict[str, ModelProvider]:
    """Return the providers that have a short form, by name."""
    known_providers: dict[str, ModelProvider] = {}
    for name, facts in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items():
        known_providers[name] = ModelProvider(**facts)
    return known_providers


def find_provider(text: str) -> tuple[ModelProvider, str]:
    """Return the provider and the model that ``PROVIDER/MODEL`` names.

    Raises:
        UsageError: If the provider is unknown, or there is no model.
    """
    name, _, model = text.partition("/")
    provider = providers().get(name)
    if provider is None or not model:
        other_hint = f"providers: {', '.join(providers())}; for any other endpoint: --model-url URL --model-id MODEL"
        suggestions_from = () if name in providers() else providers()
        example = f"{{}}/{model or 'MODEL'}"
        hint = did_you_mean(name, suggestions_from, also=other_hint, form=example)
        raise UsageError(f"--model {text} does not name a provider and a model", hint=hint)
    if provider.org and "/" not in model:
        model = f"{provider.org}/{model}"
    return provider, model


SERVICE = "model"
JUDGE = "judge"


@dataclass(frozen=True, slots=True)
class QuickEndpoint:
    """The URL of a model and its name there; ``api_key`` may be a ``${REFERENCE}``."""

    url: str
    model: str
    api_key: str | None = None

    def service(self, **generation: Any) -> dict[str, Any]:
        """Return the service block of the config; the path of the URL selects the protocol.

        Args:
            **generation: The generation settings; None for one that is not set.
        """
        url = self.url.rstrip("/")
        if not url.endswith(tuple(PROTOCOL_OF_PATH)):
            url = f"{url}/chat/completions"
        block: dict[str, Any] = {"type": "api", "url": escape(url), "model": escape(self.model)}
        if self.api_key is not None:
            block["api_key"] = self.api_key
        set_values = {name: value for name, value in generation.items() if value is not None}
        if set_values:
            block["generation"] = set_values
        return block


def quick_data(
    bench: str,
    model: QuickEndpoint,
    judge: QuickEndpoint | None = None,
    *,
    repeats: int | None = None,
    system_prompt: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """Return a config with one service called ``model`` and one benchmark with the simple solver.

    Args:
        bench: The benchmark.
        model: The model that answers.
        judge: The model that grades the answers, if any.
        repeats: Answers per problem; None for the benchmark's own number.
        system_prompt: The system prompt of the solver.
        temperature: The sampling temperature.
        max_tokens: The maximum length of an answer.
    """
    services = {SERVICE: model.service(temperature=temperature, max_tokens=max_tokens)}
    solver: dict[str, Any] = {"type": "simple", "service": SERVICE}
    if system_prompt:
        solver["system_prompt"] = escape(system_prompt)
    benchmark: dict[str, Any] = {"name": escape(bench), "solver": solver}
    if repeats is not None:
        benchmark["repeats"] = repeats
    if judge is not None:
        services[JUDGE] = judge.service()
        metric = {"type": "judge", "name": JUDGE, "service": JUDGE}
        benchmark["scoring"] = {"metrics": [metric]}
    return {"services": services, "benchmarks": [benchmark]}
