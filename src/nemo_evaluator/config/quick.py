"""Quick mode: the config of one benchmark, one endpoint and perhaps a judge, from command-line options."""

from typing import Any

from nemo_evaluator.config._environment import escape
from nemo_evaluator.config.urls import PROTOCOL_OF_PATH
from nemo_evaluator.core.values import dataclass

SERVICE, JUDGE = "model", "judge"


@dataclass(frozen=True, slots=True)
class QuickEndpoint:
    """Where a model answers and what it is called there; ``api_key`` may be a ``${REFERENCE}``."""

    url: str
    model: str
    api_key: str | None = None

    def service(self, **generation: Any) -> dict[str, Any]:
        """The block of the config; the URL's path picks the protocol."""
        url = self.url.rstrip("/")
        if not url.endswith(tuple(PROTOCOL_OF_PATH)):
            url = f"{url}/chat/completions"
        return _given(
            type="api",
            url=escape(url),
            model=escape(self.model),
            api_key=self.api_key,
            generation=_given(**generation) or None,
        )


def quick_data(
    bench: str,
    model: QuickEndpoint,
    judge: QuickEndpoint | None = None,
    *,
    repeats: int = 1,
    system_prompt: str | None = None,
    temperature: float | None = 0.0,
    max_tokens: int | None = None,
) -> dict[str, Any]:
    """One service called ``model`` and one benchmark with the simple solver; a ``judge`` grades its answers."""
    services = {SERVICE: model.service(temperature=temperature, max_tokens=max_tokens)}
    if judge is not None:
        services[JUDGE] = judge.service()
    benchmark = _given(
        name=escape(bench),
        repeats=repeats,
        solver=_given(type="simple", service=SERVICE, system_prompt=escape(system_prompt) if system_prompt else None),
        scoring={"metrics": [{"type": "judge", "name": JUDGE, "service": JUDGE}]} if judge is not None else None,
    )
    return {"services": services, "benchmarks": [benchmark]}


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
