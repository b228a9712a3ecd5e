"""Quick mode: build a config for one benchmark and one model from flags and environment variables."""

import os
from typing import Final
from urllib.parse import urlsplit

from nemo_evaluator.config.quick import QuickEndpoint, find_provider, providers, quick_data
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.executors.request import RunRequest

# Environment variables that may hold the API key.
_KEYS: Final = ("NEMO_API_KEY", "NVIDIA_API_KEY")
_JUDGE_KEY: Final = "NEMO_JUDGE_API_KEY"


def quick_config(request: RunRequest) -> JsonDict:
    """Build the config that the flags of quick mode stand for.

    Raises:
        UsageError: If the flags name no model, or only part of a judge.
    """
    url = request.model_url
    model = request.model_id
    key = request.key_variable
    if request.model is not None:
        provider, model = find_provider(request.model)
        url = provider.url
        key = key or provider.key
    elif key is None:
        key = next((name for name in _KEYS if os.environ.get(name)), None)
    if not url or not model:
        hint = (
            f"give --model PROVIDER/MODEL (providers: {', '.join(providers())}), or --model-url and --model-id, "
            "or set NEMO_MODEL_URL and NEMO_MODEL_ID"
        )
        raise UsageError("quick mode needs a model", hint=hint)
    return quick_data(
        request.bench or "",
        QuickEndpoint(url, model, _reference(key)),
        _quick_judge(request, url, key),
        repeats=request.repeats,
        system_prompt=request.system_prompt,
        temperature=request.temperature,
        max_tokens=request.max_tokens,
    )


def _quick_judge(
    request: RunRequest, model_url: str, model_key: str | None
) -> QuickEndpoint | None:
    """Return the judge if flags name one; it gets the model's key only if it is on the model's server."""
    url = request.judge_url
    judge_model = request.judge_id
    key = request.judge_key_variable
    if not url and not judge_model and key is None:
        return None
    if not url or not judge_model:
        raise UsageError(
            "a judge needs its URL and its model", hint="give --judge-url and --judge-id"
        )
    if key is None and os.environ.get(_JUDGE_KEY):
        key = _JUDGE_KEY
    is_same_server = urlsplit(url)[:2] == urlsplit(model_url)[:2]
    if key is None and is_same_server:
        key = model_key
    return QuickEndpoint(url, judge_model, _reference(key))


def _reference(variable: str | None) -> str | None:
    """Return a reference to a key's variable; the key itself must not reach the snapshot of the config."""
    return f"${{{variable}}}" if variable else None
