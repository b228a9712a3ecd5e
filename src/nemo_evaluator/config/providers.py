"""Providers of models by a short form: ``openai/gpt-4.1`` names the endpoint, the model and the variable of the key."""

from functools import cache
from pathlib import Path
from typing import Final

import yaml

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.registry import did_you_mean
from nemo_evaluator.core.values import dataclass

_FILE: Final = Path(__file__).parent / "data" / "providers.yaml"


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider answers; ``key`` is the variable that usually holds its key, None where it asks for none."""

    url: str
    key: str | None = None
    org: str | None = None


@cache
def providers() -> dict[str, Provider]:
    """Every provider that has a short form."""
    return {name: Provider(**row) for name, row in yaml.safe_load(_FILE.read_text(encoding="utf-8")).items()}


def find_provider(text: str) -> tuple[Provider, str]:
    """The provider and the model that ``PROVIDER/MODEL`` names. Raises UsageError for one that is not known."""
    name, _, model = text.partition("/")
    provider = providers().get(name)
    if provider is None or not model:
        others = f"providers: {', '.join(providers())}; for any other endpoint: --model-url URL --model-id MODEL"
        known = () if name in providers() else providers()
        hint = did_you_mean(name, known, also=others, form=f"{{}}/{model or 'MODEL'}")
        raise UsageError(f"--model {text} does not name a provider and a model", hint=hint)
    return provider, f"{provider.org}/{model}" if provider.org and "/" not in model else model
