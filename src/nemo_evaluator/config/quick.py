"""Quick mode: the config of one benchmark and one endpoint, from command-line options."""

from __future__ import annotations

from typing import Any

from nemo_evaluator.config._environment import escape
from nemo_evaluator.config.urls import PROTOCOL_OF_PATH

SERVICE = "model"


def quick_data(
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
) -> dict[str, Any]:
    """One service called ``model`` and one benchmark with the simple solver; the URL's path picks the protocol.

    ``api_key`` may be a ``${REFERENCE}``.
    """
    url = model_url.rstrip("/")
    if not url.endswith(tuple(PROTOCOL_OF_PATH)):
        url = f"{url}/chat/completions"
    service = _given(
        type="api",
        url=escape(url),
        model=escape(model_id),
        api_key=api_key,
        generation=_given(temperature=temperature, max_tokens=max_tokens),
    )
    benchmark = _given(
        name=escape(bench),
        repeats=repeats,
        max_problems=max_problems,
        solver=_given(type="simple", service=SERVICE, system_prompt=escape(system_prompt) if system_prompt else None),
    )
    return {"services": {SERVICE: service}, "benchmarks": [benchmark]}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
