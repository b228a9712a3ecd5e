"""Keys inside URLs: a password is refused with the fix, a parameter is a secret."""

from __future__ import annotations

import pytest

from nemo_evaluator.config import load_mapping
from nemo_evaluator.config.snapshot import snapshot_text
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.core.secrets import scrub


def _config(url: str, **service: object) -> dict[str, object]:
    one = {"type": "api", "protocol": "chat_completions", "url": url, **service}
    return {
        "services": {"m": one},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "simple", "service": "m"}}],
    }


@pytest.mark.parametrize("who", ["user:hunter2-url", "hunter2-url", "user:pw"])
def test_a_password_in_a_url_is_refused_and_not_repeated(who):
    with pytest.raises(ConfigError) as caught:
        load_mapping(_config(f"https://{who}@host.example/v1/chat/completions"))
    said = str(caught.value)
    assert "services.m.url" in said
    assert "api_key" in said
    assert who not in said


@pytest.mark.parametrize(
    "name", ["key", "api-key", "api_key", "access_token", "subscription-key", "sig"]
)
def test_a_key_in_the_query_is_a_secret(name):
    url = f"https://host.example/v1/chat/completions?{name}=in-the-query-{name}&api-version=2024-10-21"
    loaded = load_mapping(_config(url))
    shown = snapshot_text(loaded, command=["nel", "-O", f"services.m.url={url}"])
    assert f"in-the-query-{name}" not in shown
    assert "api-version=2024-10-21" in shown
    assert "# masked: services.m.url" in shown
    assert scrub(f"cannot reach {url}").endswith(f"?{name}=***&api-version=2024-10-21")


def test_a_variable_in_a_url_stays_a_reference_and_its_value_is_a_secret():
    loaded = load_mapping(
        _config("https://h.example/v1?key=${GATE_KEY}"), environment={"GATE_KEY": "gate-key-01234"}
    )
    assert "key=${GATE_KEY}" in snapshot_text(loaded)
    assert scrub("gate-key-01234") == "***"


def test_a_webhook_with_a_password_is_masked():
    stage = {
        "name": "progress_tracking",
        "config": {"webhook_url": "https://me:webhook-pass-1@hooks.example/x"},
    }
    loaded = load_mapping(_config("https://h.example/v1/chat/completions", interceptors=[stage]))
    assert "webhook-pass-1" not in snapshot_text(loaded) + loaded.config.model_dump_json()
