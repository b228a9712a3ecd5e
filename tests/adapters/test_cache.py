"""The answer cache: its key, its store, and what a cached run sends."""

from __future__ import annotations

import asyncio
import copy
import time

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_evaluator.adapters.cache_store import AnswerStore, clear_store, prune_store, store_stats
from nemo_evaluator.adapters.interceptors.caching import cache_key
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models import StageSpec
from nemo_evaluator.testing import Say

HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "temperature": 1.0}

text = st.text(max_size=8)
number = st.one_of(st.integers(-5, 5), st.floats(-2, 2, allow_nan=False))
part = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": text}),
    st.fixed_dictionaries(
        {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": text})}
    ),
)
message = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        "content": st.one_of(text, st.lists(part, max_size=2)),
    }
)
tool = st.fixed_dictionaries(
    {"type": st.just("function"), "function": st.fixed_dictionaries({"name": text})}
)
body = st.fixed_dictionaries(
    {"model": text, "messages": st.lists(message, min_size=1, max_size=3)},
    optional={
        "prompt": text,
        "input": text,
        "temperature": number,
        "top_p": number,
        "max_tokens": st.integers(1, 9),
        "max_completion_tokens": st.integers(1, 9),
        "seed": st.integers(0, 9),
        "stop": st.lists(text, max_size=2),
        "n": st.integers(1, 3),
        "frequency_penalty": number,
        "presence_penalty": number,
        "response_format": st.fixed_dictionaries({"type": text}),
        "tool_choice": text,
        "tools": st.lists(tool, max_size=2),
        "logprobs": st.booleans(),
        "chat_template_kwargs": st.dictionaries(text, st.booleans(), max_size=2),
    },
)


def meaning(value):
    """What a request means, by an independent reading: nulls are absent, 1 and 1.0 are one number."""
    if isinstance(value, dict):
        return tuple(sorted((k, meaning(v)) for k, v in value.items()))
    if isinstance(value, list):
        return ("list", *map(meaning, value))
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, int | float):
        return ("number", float(value) + 0.0)
    return (type(value).__name__, value)


@settings(max_examples=150, deadline=None)
@given(body, body)
def test_requests_share_a_key_only_if_they_mean_the_same(one, two):
    same = cache_key("/chat/completions", one) == cache_key("/chat/completions", two)
    assert same == (meaning(one) == meaning(two))


@settings(max_examples=120, deadline=None)
@given(body, st.data())
def test_any_one_change_changes_the_key(one, data):
    changed = copy.deepcopy(one)
    field = data.draw(st.sampled_from(sorted(changed)))
    changed[field] = data.draw(
        st.sampled_from([{"other": 1}, "another value", ["x", "y", "z"], 12345])
    )
    key = cache_key("/chat/completions", one)
    assert cache_key("/chat/completions", changed) != key
    assert cache_key("/completions", one) != key
    assert cache_key("/chat/completions", one, repeat=1) != key
    assert cache_key("/chat/completions", one, service={"host": "other"}) != key


@settings(max_examples=100, deadline=None)
@given(body, st.randoms())
def test_order_nulls_and_delivery_do_not_change_the_key(one, random):
    keys = list(one)
    random.shuffle(keys)
    same = {key: one[key] for key in keys}
    same |= {
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "u",
        "logit_bias": None,
    }
    assert cache_key("/chat/completions", same) == cache_key("/chat/completions", one)


async def test_a_cached_run_repeated_sends_nothing(opened, tmp_path):
    spec = StageSpec("caching", {"cache_dir": str(tmp_path)})
    rounds = []
    numbers = iter(range(100))
    for _ in range(2):
        async with opened(lambda seen: f"answer {next(numbers)}", spec) as both:
            answers = [
                (
                    await both.ask(
                        {**HELLO, "messages": [{"role": "user", "content": q}]},
                        session=f"s{q}",
                        repeat=r,
                    )
                ).body
                for q in ("a", "b")
                for r in (0, 1)
            ]
        rounds.append((answers, both.server.count, both.stats()["caching"]))
    assert rounds[0][0] == rounds[1][0]
    assert rounds[0][1:] == (4, {"hits": 0, "misses": 4})
    assert rounds[1][1:] == (0, {"hits": 4, "misses": 0})
    contents = {answer["choices"][0]["message"]["content"] for answer in rounds[0][0]}
    assert len(contents) == 4


async def test_the_same_question_twice_in_a_session_is_asked_twice(opened, tmp_path):
    spec = StageSpec("caching", {"cache_dir": str(tmp_path)})
    numbers = iter(range(100))
    seen = []
    for session in ("one", "two"):
        async with opened(lambda _: f"{next(numbers)}", spec) as both:
            seen.append(
                [(await both.ask(HELLO, session=session)).message["content"] for _ in range(3)]
            )
    assert seen == [["0", "1", "2"]] * 2


async def test_other_stages_come_before_the_cache_whatever_the_order(opened, tmp_path):
    caching = StageSpec("caching", {"cache_dir": str(tmp_path)})
    for text_ in ("be kind", "be brief"):
        system = StageSpec("system_message", {"system_message": text_})
        async with opened(
            "ok", caching, system, finish_reason_fixup=True, generation={"seed": 1}
        ) as both:
            await both.ask(HELLO)
            assert both.server.count == 1


async def test_modes(opened, tmp_path):
    async def misses(**config):
        async with opened(
            "ok", StageSpec("caching", {"cache_dir": str(tmp_path), **config})
        ) as both:
            await both.ask(HELLO)
        return both.server.count

    assert await misses(mode="read") == 1
    assert await misses(mode="read") == 1
    assert await misses() == 1
    assert await misses(mode="read") == 0
    assert await misses(bypass=True) == 1
    assert await misses(mode="off") == 1


async def test_the_setting_on_the_service(opened, tmp_path):
    for expected in (1, 0):
        async with opened("ok", cache_mode="write", cache_dir=str(tmp_path)) as both:
            await both.ask(HELLO)
        assert both.server.count == expected


async def test_errors_are_not_stored(opened, tmp_path):
    spec = StageSpec("caching", {"cache_dir": str(tmp_path)})
    async with opened([Say(status=400), "ok"], spec) as both:
        assert (await both.ask(HELLO)).status == 400
        assert (await both.ask(HELLO)).status == 200


async def test_streams_are_stored_and_replayed(proxied, tmp_path):
    spec = StageSpec("caching", {"cache_dir": str(tmp_path)})
    texts = []
    async with (
        proxied(Say("one two", reasoning="r"), spec) as (proxy, server),
        aiohttp.ClientSession() as client,
    ):
        headers = {"Authorization": f"Bearer {proxy.token.reveal()}"}
        for stream in (True, True, False):
            request = {**HELLO, "stream": stream}
            async with client.post(
                f"{proxy.url}/chat/completions", json=request, headers=headers
            ) as response:
                texts.append(await response.text())
        assert server.count == 1
    assert '"content":"one two"' in texts[1]
    assert texts[1].endswith("data: [DONE]\n\n")
    assert '"reasoning_content":"r"' in texts[2]
    assert "chat.completion.chunk" not in texts[2]


async def test_store(tmp_path):
    store = AnswerStore(tmp_path)
    for n in range(200):
        await store.put(f"k{n}", {"n": n}, model="a" if n % 2 else "b")
    assert store.get("k7") == {"n": 7}
    await asyncio.sleep(0.4)
    assert store.get("k8") == {"n": 8}
    assert store.get("none") is None
    await store.close()
    again = AnswerStore(tmp_path)
    assert again.get("k199") == {"n": 199}
    await again.close()
    stats = store_stats(tmp_path)
    assert (stats.entries, stats.models) == (200, {"a": 100, "b": 100})
    assert stats.newest - stats.oldest < 60
    assert prune_store(tmp_path, older_than=3600) == 0
    assert prune_store(tmp_path, max_bytes=500) > 100
    assert 0 < store_stats(tmp_path).entries < 100
    time.sleep(0.01)
    assert prune_store(tmp_path, older_than=0) > 0
    assert clear_store(tmp_path) == 0
    assert store_stats(tmp_path).entries == 0


async def test_a_broken_store_is_told(tmp_path):
    (tmp_path / "answers.db").write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(UsageError, match="cannot be used"):
        AnswerStore(tmp_path)
