"""The stand-ins for vendors' batch APIs, driven by the vendors' own clients."""

from __future__ import annotations

import io
import json
from typing import Any

import anthropic
import openai
import pytest
from anthropic_batches import AnthropicBatches
from batch_server import Fate
from openai_batches import OpenAIBatches

from nemo_evaluator.testing import Rule, Say

BAD = [Rule(Say(status=400, message="bad"), contains="q0"), Rule("fine")]


def _openai(server: OpenAIBatches) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url, api_key="k", max_retries=0)


def _submit(client: openai.OpenAI, count: int, **metadata: str) -> openai.types.Batch:
    rows = [
        {
            "custom_id": f"id{number}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": f"q{number}"}]},
        }
        for number in range(count)
    ]
    data = io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
    file = client.files.create(file=("in.jsonl", data), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata=metadata,
    )


def _rows(client: openai.OpenAI, file_id: str | None) -> dict[str, dict]:
    text = client.files.content(file_id).text if file_id else ""
    return {row["custom_id"]: row for row in map(json.loads, text.splitlines())}


def test_openai_client_reads_a_completed_batch_with_both_files():
    with OpenAIBatches(BAD, fates=[Fate(polls=2)]) as server, _openai(server) as client:
        batch = _submit(client, 3, nonce="n1")
        assert batch.status == "validating"
        assert [one.metadata for one in client.batches.list()] == [{"nonce": "n1"}]
        assert client.batches.retrieve(batch.id).status == "in_progress"
        ended = client.batches.retrieve(batch.id)
        assert ended.status == "completed"
        assert (
            ended.request_counts.total,
            ended.request_counts.completed,
            ended.request_counts.failed,
        ) == (3, 2, 1)
        good, bad = _rows(client, ended.output_file_id), _rows(client, ended.error_file_id)
        assert {
            key: row["response"]["body"]["choices"][0]["message"]["content"]
            for key, row in good.items()
        } == {
            "id1": "fine",
            "id2": "fine",
        }
        assert bad["id0"]["response"]["status_code"] == 400
        with pytest.raises(openai.NotFoundError):
            client.batches.retrieve("batch_other")


@pytest.mark.parametrize(
    ("end", "code"), [("expired", "batch_expired"), ("cancelled", "batch_cancelled")]
)
def test_openai_client_reads_what_was_done_before_the_end(end: str, code: str):
    with OpenAIBatches("fine", fates=[Fate(end, done=0.5)]) as server, _openai(server) as client:
        ended = client.batches.retrieve(_submit(client, 4).id)
        assert ended.status == end
        assert set(_rows(client, ended.output_file_id)) == {"id0", "id1"}
        assert {row["error"]["code"] for row in _rows(client, ended.error_file_id).values()} == {
            code
        }
        assert server.answered == {"q0": 1, "q1": 1}


def test_openai_client_sees_failed_and_cancelled_batches():
    fates = [Fate("failed", code="token_limit_exceeded"), Fate("never")]
    with OpenAIBatches("fine", fates=fates) as server, _openai(server) as client:
        failed = client.batches.retrieve(_submit(client, 2).id)
        assert failed.status == "failed"
        assert failed.errors.data[0].code == "token_limit_exceeded"
        endless = _submit(client, 2)
        assert client.batches.retrieve(endless.id).status == "in_progress"
        assert client.batches.cancel(endless.id).status == "cancelling"
        assert client.batches.retrieve(endless.id).status == "cancelled"
        assert [one.id for one in client.batches.list(limit=1)] == [endless.id, failed.id]


def _anthropic(server: AnthropicBatches) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=server.url.removesuffix("/v1"), api_key="k", max_retries=0)


def _ask(client: anthropic.Anthropic, count: int) -> anthropic.types.messages.MessageBatch:
    requests: Any = [
        {
            "custom_id": f"id{n}",
            "params": {
                "model": "m",
                "max_tokens": 5,
                "messages": [{"role": "user", "content": f"q{n}"}],
            },
        }
        for n in range(count)
    ]
    return client.messages.batches.create(requests=requests)


def test_anthropic_client_reads_every_kind_of_result():
    fates = [Fate(polls=1), Fate("expired", done=0.5), Fate("never", done=0.5)]
    with AnthropicBatches(BAD, fates=fates) as server, _anthropic(server) as client:
        kinds = []
        for _ in fates:
            batch = _ask(client, 4)
            assert batch.processing_status == "in_progress"
            assert batch.request_counts.processing == 4
            client.messages.batches.retrieve(batch.id)
            if len(kinds) == 2:
                assert client.messages.batches.cancel(batch.id).processing_status == "canceling"
            ended = client.messages.batches.retrieve(batch.id)
            assert ended.processing_status == "ended"
            results = {
                one.custom_id: one.result for one in client.messages.batches.results(batch.id)
            }
            kinds.append([results[f"id{n}"].type for n in range(4)])
        assert kinds == [
            ["errored", "succeeded", "succeeded", "succeeded"],
            ["errored", "succeeded", "expired", "expired"],
            ["errored", "succeeded", "canceled", "canceled"],
        ]
        assert results["id1"].message.content[0].text == "fine"
        assert results["id0"].error.error.message == "bad"
        assert len(list(client.messages.batches.list(limit=2))) == 3


def test_anthropic_client_is_refused_ids_and_results_that_the_reference_forbids():
    with AnthropicBatches("fine", fates=[Fate("never")]) as server, _anthropic(server) as client:
        bad: Any = [{"custom_id": "no spaces", "params": {}}]
        with pytest.raises(anthropic.BadRequestError):
            client.messages.batches.create(requests=bad)
        with pytest.raises(anthropic.AnthropicError):
            list(client.messages.batches.results(_ask(client, 1).id))
        # Outside of batches it answers at once.
        said = client.messages.create(
            model="m", max_tokens=5, messages=[{"role": "user", "content": "hi"}]
        )
        assert said.content[0].text == "fine"
        assert (server.direct, server.answered) == (1, {"hi": 1})


def test_on_call_sees_each_call_before_and_after_its_effect():
    seen = []
    server = OpenAIBatches("fine")
    server.on_call = lambda name, when: seen.append((name, when, len(server.batches)))
    with server, _openai(server) as client:
        client.batches.retrieve(_submit(client, 1).id)
    assert seen == [
        ("upload", "before", 0),
        ("upload", "after", 0),
        ("submit", "before", 0),
        ("submit", "after", 1),
        ("poll", "before", 1),
        ("poll", "after", 1),
    ]
