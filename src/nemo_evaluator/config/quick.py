"""Quick mode: the config of one benchmark and one endpoint, from command-line options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nemo_evaluator.config import user_settings
from nemo_evaluator.config._document import Document
from nemo_evaluator.config._explain import explain
from nemo_evaluator.config.eval_config import EvalConfig
from nemo_evaluator.config.load import LoadedConfig
from nemo_evaluator.config.services import PROTOCOL_OF_PATH, protocol_of_url
from nemo_evaluator.core.errors import ConfigError

SERVICE = "model"


def quick_config(
    bench: str,
    model_url: str,
    model_id: str,
    *,
    api_key: str | None = None,
    repeats: int = 1,
    max_problems: int | None = None,
    system_prompt: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
    output_dir: str | Path | None = None,
) -> LoadedConfig:
    """One service called ``model`` and one benchmark with the simple solver. The URL's path picks the protocol."""
    url = model_url.rstrip("/")
    protocol = protocol_of_url(url) if "://" in url else None
    if protocol is None and not any(url.endswith(ending) for ending in PROTOCOL_OF_PATH):
        url, protocol = f"{url}/chat/completions", "chat_completions"
    service: dict[str, Any] = {"type": "api", "url": url, "protocol": protocol, "model": model_id}
    if api_key:
        service["api_key"] = api_key
    generation = {"temperature": temperature, "max_tokens": max_tokens}
    service["generation"] = {name: value for name, value in generation.items() if value is not None}
    solver: dict[str, Any] = {"type": "simple", "service": SERVICE}
    if system_prompt is not None:
        solver["system_prompt"] = system_prompt
    benchmark: dict[str, Any] = {"name": bench, "repeats": repeats, "solver": solver}
    if max_problems is not None:
        benchmark["max_problems"] = max_problems
    data: dict[str, Any] = {"services": {SERVICE: service}, "benchmarks": [benchmark]}
    data = user_settings.under_config(data, user_settings.load_settings())
    if output_dir is not None:
        data["output"] = {**data.get("output", {}), "dir": str(output_dir)}
    document = Document(data)
    try:
        return LoadedConfig(EvalConfig.model_validate(data), data, document=document)
    except ValidationError as error:
        raise ConfigError(explain(error, document, EvalConfig)) from None
