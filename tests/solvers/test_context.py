"""Trimming a conversation never leaves a result without its call, nor a call without its result."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nemo_evaluator.solvers._agent_run import fit, size_of


def _conversation(turns: list[list[int]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "the question"},
    ]
    for at, sizes in enumerate(turns):
        calls = [
            {"id": f"{at}.{n}", "function": {"name": "f", "arguments": "{}"}}
            for n in range(len(sizes))
        ]
        messages.append({"role": "assistant", "content": f"turn {at}", "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_call_id": f"{at}.{n}", "content": "x" * size}
            for n, size in enumerate(sizes)
        ]
    return messages


def _whole(messages: list[dict[str, Any]]) -> bool:
    """Every call is followed by exactly its results, and nothing else is a result."""
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                return False
        elif open_calls:
            return False
        elif message["role"] == "assistant":
            open_calls = [call["id"] for call in message["tool_calls"]]
    return not open_calls


@given(st.lists(st.lists(st.integers(0, 4000), max_size=4), max_size=8), st.integers(1, 5000))
def test_what_is_kept_is_whole_and_in_order(turns: list[list[int]], budget: int) -> None:
    messages = _conversation(turns)
    before = copy.deepcopy(messages)
    kept = fit(messages, budget)
    assert messages == before
    assert _whole(kept)
    assert [m["role"] for m in kept[:2]] == ["system", "user"]
    assert kept[1]["content"].startswith("the question")
    if size_of(messages) <= budget:
        assert kept == messages
    if turns:
        # The last turn is always there, untouched.
        last = 1 + len(turns[-1])
        assert kept[-last:] == messages[-last:]


def test_old_output_goes_before_old_turns() -> None:
    messages = _conversation([[4000], [4000], [100]])
    kept = fit(messages, 1200)
    assert [m["role"] for m in kept] == [m["role"] for m in messages]
    assert kept[3]["content"] == "[4000 characters of output left out to fit the context]"
    assert kept[5]["content"] == messages[5]["content"]


def test_whole_turns_go_with_a_note_in_the_question() -> None:
    messages = _conversation([[100]] * 50)
    kept = fit(messages, 600)
    assert len(kept) < len(messages)
    gone = (len(messages) - len(kept)) // 2
    assert (
        kept[1]["content"] == f"the question\n\n[{gone} earlier turns left out to fit the context]"
    )
    pictured = [
        *messages[:1],
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
        *messages[2:],
    ]
    assert fit(pictured, 600)[1]["content"][-1]["text"].endswith("left out to fit the context]")
