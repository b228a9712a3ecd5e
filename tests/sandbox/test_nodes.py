"""Slots on the nodes of a job."""

from __future__ import annotations

from nemo_evaluator.sandbox._clients import NodeSlots


async def test_a_slot_in_use_is_not_given_out_again() -> None:
    slots = NodeSlots(["a", "b"], 2)
    taken = [await slots.take() for _ in range(4)]
    assert len(set(taken)) == 4
    assert {place.node for place in taken[:2]} == {"a", "b"}
    slots.give(taken[2])
    assert await slots.take() == taken[2]
    assert "127.0.0.1" not in NodeSlots.from_node("http://127.0.0.1:80/v1")
    assert NodeSlots.from_node("http://host:80/v1") == "http://host:80/v1"
