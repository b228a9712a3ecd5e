"""Every bad behaviour of a server: the cause, the number of tries and the words of the error."""

from __future__ import annotations

import pytest

from nemo_evaluator.core.errors import (
    AuthError,
    BudgetError,
    ContextExceededError,
    NotFoundError,
    RateLimitError,
    RequestRejectedError,
    TransportError,
)
from nemo_evaluator.models import RetryConfig, Timeouts
from nemo_evaluator.testing import Fault, Say

HELLO = [{"role": "user", "content": "hello"}]
QUICK = Timeouts(connect=1.0, first_byte=0.3, idle=0.3, total=2.0)
LONG = "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."

# (what the server does, error, tries of three, words)
TABLE = [
    (
        Say(status=400, message="temperature must be <= 2"),
        RequestRejectedError,
        1,
        "HTTP 400: temperature must",
    ),
    (Say(status=400, message=LONG), ContextExceededError, 1, "maximum context length"),
    (
        Say(status=413, message="prompt is too long: 9000 > 8192"),
        ContextExceededError,
        1,
        "too long",
    ),
    (
        Say(status=422, message="Input length 9 exceeds the limit"),
        ContextExceededError,
        1,
        "exceeds",
    ),
    (Say(status=409, message="conflict"), RequestRejectedError, 1, "HTTP 409: conflict"),
    (Say(status=422, message="bad field"), RequestRejectedError, 1, "bad field"),
    (Say(status=401), AuthError, 1, "HTTP 401"),
    (Say(status=403), AuthError, 1, "HTTP 403"),
    (Say(status=404, message="The model `m` does not exist"), NotFoundError, 1, "does not exist"),
    (Say(status=408), TransportError, 3, "HTTP 408"),
    (Say(status=429, message="slow down"), RateLimitError, 3, "slow down"),
    (
        Say(
            status=429,
            body={
                "error": {
                    "message": "Turn budget exhausted: 5/4",
                    "code": "session_budget_exhausted",
                }
            },
        ),
        BudgetError,
        1,
        "Turn budget exhausted: 5/4",
    ),
    (Say(status=500), TransportError, 3, "HTTP 500"),
    (Say(status=502), TransportError, 3, "HTTP 502"),
    (Say(status=503, message="overloaded"), TransportError, 3, "overloaded"),
    (Say(status=529), TransportError, 3, "HTTP 529"),
    (Say(status=500, fault=Fault.WRONG_TYPE), TransportError, 3, "Gateway login"),
    (Say(fault=Fault.RESET), TransportError, 3, "connection"),
    (Say(fault=Fault.CLOSE), TransportError, 3, "the server closed the connection"),
    (Say(fault=Fault.BAD_HTTP), TransportError, 3, "svc"),
    (Say(fault=Fault.STALL), TransportError, 3, "no answer within 0.3 s (timeouts.first_byte)"),
    (Say(fault=Fault.STALL_HEADERS), TransportError, 3, "nothing came for 0.3 s (timeouts.idle)"),
    (Say(fault=Fault.STALL_BODY), TransportError, 3, "nothing came for 0.3 s (timeouts.idle)"),
    (Say(fault=Fault.TRUNCATED_JSON), TransportError, 3, "without JSON"),
    (Say(fault=Fault.TRUNCATED_BODY), TransportError, 3, "the connection broke"),
    (Say(fault=Fault.MALFORMED_JSON), TransportError, 3, "without JSON"),
    (Say(fault=Fault.NOT_AN_OBJECT), TransportError, 3, "not an object"),
    (Say(fault=Fault.EMPTY_BODY), TransportError, 3, "0 bytes"),
    (Say(fault=Fault.EMPTY_CHOICES), TransportError, 3, "without choices"),
    (Say(fault=Fault.NULL_CHOICES), TransportError, 3, "without choices"),
    (Say(fault=Fault.NO_MESSAGE), TransportError, 3, "no message"),
    (Say(fault=Fault.WRONG_TYPE), TransportError, 3, "text/html"),
    (Say(fault=Fault.BAD_ENCODING), TransportError, 3, "without JSON"),
    (Say(fault=Fault.HUGE, size=70_000_000), TransportError, 1, "larger than 64 MB"),
    (
        Say(body={"error": {"message": "model crashed"}}),
        TransportError,
        3,
        "an error inside: model crashed",
    ),
]


@pytest.mark.parametrize(
    ("say", "kind", "tries", "words"), TABLE, ids=lambda v: getattr(v, "fault", None) or None
)
async def test_fault(asked, say, kind, tries, words):
    retry = RetryConfig(0 if say.fault is Fault.HUGE else 2, 0.01, 0.02)
    waits = Timeouts(9, 9, 9, 20) if say.fault is Fault.HUGE else QUICK
    async with asked(say, retry=retry, timeouts=waits) as (client, server):
        with pytest.raises(kind) as raised:
            await client.chat(HELLO)
    assert type(raised.value) is kind
    assert words in raised.value.message
    assert raised.value.attempts == tries == server.count


async def test_refused_connection(asked):
    async with asked("ok") as (client, server):
        await server.stop()
        with pytest.raises(TransportError, match="no connection") as raised:
            await client.chat(HELLO)
    assert raised.value.attempts == 3


@pytest.mark.parametrize(
    "bad",
    [
        Say(status=500),
        Say(status=429),
        Say(fault=Fault.RESET),
        Say(fault=Fault.STALL),
        Say(fault="truncated_json"),
    ],
)
async def test_a_retry_mends_it(asked, bad):
    async with asked([bad, "ok"], timeouts=QUICK) as (client, server):
        response = await client.chat(HELLO)
        stats = client.stats
    assert response.content == "ok"
    assert response.attempts == server.count == 2
    assert stats["retries"] == 1
    assert server.duplicates


async def test_retry_on_status_is_obeyed(asked):
    async with asked(Say(status=500), retry=RetryConfig(2, 0.01, 0.02, [503])) as (client, server):
        with pytest.raises(TransportError):
            await client.chat(HELLO)
        assert server.count == 1
    async with asked([Say(status=409), "ok"], retry=RetryConfig(2, 0.01, 0.02, [409])) as (
        client,
        server,
    ):
        assert (await client.chat(HELLO)).attempts == 2


async def test_the_key_is_in_no_error_and_no_repr(asked):
    from nemo_evaluator.core.secrets import Secret

    key = "sk-very-secret-0123456789"
    server_settings = {"api_key": "another"}
    async with asked("ok", api_key=Secret(key), server=server_settings) as (client, server):
        with pytest.raises(AuthError) as raised:
            await client.chat(HELLO)
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert "Incorrect API key provided: ***" in raised.value.message
    assert "check the variable" in raised.value.hint
    texts = [
        repr(raised.value),
        str(raised.value),
        raised.value.hint,
        repr(client.endpoint),
        str(client.stats),
    ]
    assert not any(key in text for text in texts)


async def test_a_missing_key_says_what_to_add(asked):
    async with asked("ok", server={"api_key": "k"}) as (client, _):
        with pytest.raises(AuthError) as raised:
            await client.chat(HELLO)
    assert "has no api_key" in raised.value.hint


async def test_unknown_model(asked):
    async with asked("ok", server={"models": ["other"]}) as (client, _):
        with pytest.raises(NotFoundError) as raised:
            await client.chat(HELLO)
    assert "'m'" in raised.value.hint
