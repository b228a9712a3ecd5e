"""A shared service: another way to ask a server, with the settings of the server where it has none of its own."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_evaluator.config import EvalConfig, parse_eval_config
from nemo_evaluator.core.errors import ConfigError
from nemo_evaluator.models import endpoint_of
from nemo_evaluator.services import is_managed, service_identity

_SERVER = {
    "type": "vllm",
    "model": "org/m",
    "port": 8123,
    "protocol": "chat_completions",
    "generation": {"temperature": 0.5},
    "timeouts": {"total": 77},
    "interceptors": [{"name": "reasoning"}],
}
_API = {"type": "api", "url": "http://h/v1/chat/completions", "model": "z", "api_key": "k-1234567"}


def config(**shared: Any) -> EvalConfig:
    services = {"model": _SERVER, "remote": _API, "other": {"type": "shared", **shared}}
    benchmark = {"name": "gsm8k", "solver": {"type": "simple", "service": "other"}}
    return parse_eval_config({"services": services, "benchmarks": [benchmark]})


def problems(**shared: Any) -> str:
    with pytest.raises(ConfigError) as error:
        config(**shared)
    return str(error.value)


def test_settings_that_it_leaves_out_are_those_of_the_server() -> None:
    parsed = config(server="model", protocol="completions")
    service: Any = parsed.services["other"]
    assert (service.protocol, service.timeouts.total) == ("completions", 77)
    assert service.generation.temperature == 0.5
    assert [stage.name for stage in service.proxy.interceptors] == ["reasoning"]
    assert service.depends_on == ["model"]


def test_its_own_settings_replace_those_of_the_server() -> None:
    parsed = config(server="model", interceptors=[], generation={"top_p": 0.9})
    endpoint = endpoint_of("other", parsed.services["other"], url="http://h/v1")
    assert endpoint.generation == {"top_p": 0.9}
    assert list(endpoint.stages) == []
    own: Any = parsed.services["model"]
    assert [stage.name for stage in own.proxy.interceptors] == ["reasoning"]


def test_requests_have_the_name_the_key_and_the_identity_of_the_server() -> None:
    managed = config(server="model").services
    assert is_managed(managed["model"]) and not is_managed(managed["other"])
    assert service_identity(managed["other"]) == service_identity(managed["model"])
    assert endpoint_of("other", managed["other"], url="http://h/v1").model == "model"
    remote = config(server="remote", protocol="completions").services
    endpoint = endpoint_of("other", remote["other"])
    assert endpoint.api_key is not None and endpoint.api_key.reveal() == "k-1234567"
    plain = {**_API, "protocol": "completions"}
    assert (endpoint.url, endpoint.model) == ("http://h/v1", "z")
    with pytest.warns(UserWarning, match="implies"):
        services = {"other": plain}
        alone = parse_eval_config({"services": services, "benchmarks": [{"name": "gsm8k"}]})
    same = endpoint_of("other", alone.services["other"])
    assert endpoint.describe() == same.describe(), "answers of both may be exchanged"


def test_it_is_the_same_after_it_was_stored() -> None:
    parsed = config(server="model", protocol="completions")
    again = parsed.model_validate(parsed.model_dump())
    before = endpoint_of("other", parsed.services["other"], url="http://h/v1").describe()
    assert endpoint_of("other", again.services["other"], url="http://h/v1").describe() == before


def test_only_a_service_with_a_server_of_its_own_is_shared() -> None:
    assert "no service is called 'modle'" in problems(server="modle")
    assert "has no server of its own" in problems(server="other")
    assert "batch is for services of type api" in problems(
        server="remote", batch={"provider": "openai"}
    )
