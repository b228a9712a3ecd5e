"""From a service of the config to an endpoint."""

from __future__ import annotations

import pytest

from nemo_evaluator.config import parse_eval_config
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models import Price, StageSpec, Timeouts, endpoint_of


def _service(**fields):
    service = {
        "type": "api",
        "url": "https://host:8443/v1/chat/completions",
        "protocol": "chat_completions",
        **fields,
    }
    config = {
        "services": {"svc": service},
        "benchmarks": [{"name": "gsm8k", "solver": {"type": "simple", "service": "svc"}}],
    }
    return parse_eval_config(config).services["svc"]


def test_every_setting_arrives():
    service = _service(
        model="m",
        api_key="sk-123456",
        generation={"temperature": 0.5},
        timeouts={"connect": 1, "first_byte": 2, "idle": 3, "total": 4},
        retry={"max_retries": 1, "base_delay": 0.1, "max_delay": 2, "on_status": [500]},
        reasoning_pattern="<r>.*</r>",
        max_concurrent=7,
        max_input_tokens=100,
        max_output_tokens=50,
        price={"input": 1, "output": 2},
        interceptors=[{"name": "drop_params", "config": {"params": ["seed"]}}],
    )
    endpoint = endpoint_of("svc", service)
    assert endpoint.url == "https://host:8443/v1"
    assert endpoint.model == "m"
    assert endpoint.api_key.reveal() == "sk-123456"
    assert endpoint.generation == {"temperature": 0.5}
    assert endpoint.timeouts == Timeouts(1, 2, 3, 4)
    assert (endpoint.retry.max_retries, endpoint.retry.base_delay, endpoint.retry.max_delay) == (
        1,
        0.1,
        2,
    )
    assert endpoint.retry.retry_on_status == [500]
    assert endpoint.reasoning_pattern == "<r>.*</r>"
    assert (endpoint.max_concurrent, endpoint.max_input_tokens, endpoint.max_output_tokens) == (
        7,
        100,
        50,
    )
    assert endpoint.price == Price(1, 2)
    assert endpoint.stages == [StageSpec("drop_params", {"params": ["seed"]})]


def test_identity_forgets_what_cannot_change_an_answer():
    one = endpoint_of(
        "svc", _service(api_key="sk-123456", max_concurrent=1, price={"input": 1, "output": 1})
    )
    two = endpoint_of(
        "svc", _service(url="https://host:9999/v1", timeouts={"total": 5}, retry={"max_retries": 0})
    )
    assert one.describe() == two.describe()
    for change in (
        {"url": "https://other/v1"},
        {"model": "x"},
        {"generation": {"seed": 1}},
        {"proxy": {"extra_body": {"top_k": 1}}},
        {"interceptors": [{"name": "system_message", "config": {"system_message": "hi"}}]},
    ):
        assert endpoint_of("svc", _service(**change)).describe() != one.describe(), change
    observed = endpoint_of("svc", _service(interceptors=[{"name": "log_tokens"}]))
    assert observed.describe() == one.describe()


def test_the_model_of_a_service_without_one_is_its_name():
    assert endpoint_of("svc", _service()).model == "svc"


def test_a_service_that_is_no_model():
    with pytest.raises(UsageError, match="not a model"):
        endpoint_of("gym", object())
