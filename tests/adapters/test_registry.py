"""Building stages: names, modules, files, and settings that are refused."""

from __future__ import annotations

import pytest

from nemo_evaluator.adapters import Interceptor, Pipeline, Place, build_stage, interceptor_registry
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models import ModelReply, ModelRequest, StageSpec
from nemo_evaluator.models.endpoint import OBSERVERS

NAMES = [
    "caching",
    "consolidate_system",
    "drop_params",
    "endpoint",
    "finish_reason",
    "http_pairs_dump",
    "log_tokens",
    "logging",
    "modify_tools",
    "payload_modifier",
    "progress_tracking",
    "raise_client_errors",
    "reasoning",
    "reasoning_replay",
    "response_stats",
    "streaming",
    "system_message",
    "turn_counter",
]
NEEDS = {
    "drop_params": {"params": []},
    "http_pairs_dump": {"dump_path": "/nonexistent/pairs.json"},
    "modify_tools": {"strip_properties": ["a"]},
    "system_message": {"system_message": "x"},
}


def test_all_names_build():
    assert [name for name in interceptor_registry.names() if name in NAMES] == NAMES
    for name in NAMES:
        assert isinstance(build_stage(StageSpec(name, NEEDS.get(name, {}))), Interceptor)
    assert set(NAMES) >= OBSERVERS


@pytest.mark.parametrize(
    ("name", "config", "message", "hint"),
    [
        ("turn_countr", {}, "unknown interceptor", "turn_counter"),
        ("turn_counter", {"max_turn": 3}, "no setting 'max_turn'", "max_turns"),
        ("drop_params", {}, "needs the setting 'params'", None),
        ("turn_counter", {"interval": 0}, "wrong interval: .* greater than or equal to 1", None),
        ("turn_counter", {"position": "top"}, "wrong position: .*user_message", None),
        ("turn_counter", {"trigger": "never"}, "wrong trigger: .*periodic", None),
        (
            "system_message",
            {"system_message": "x", "strategy": "mix"},
            "wrong strategy: .*prepend",
            None,
        ),
        ("reasoning_replay", {"mode": "x"}, "wrong mode: .*native", None),
        ("reasoning_replay", {"tag_open": ""}, "wrong tag_open: .* at least 1 character", None),
        ("caching", {"mode": "sometimes"}, "wrong mode: .*read", None),
        ("modify_tools", {}, "does nothing", "strip_properties"),
        ("response_stats", {"every": 0}, "wrong every: .* equal to 1", None),
        ("progress_tracking", {"every": 0}, "wrong every: .* equal to 1", None),
        (
            "http_pairs_dump",
            {"dump_path": "x", "first_n": -1},
            "wrong first_n: .* equal to 0",
            None,
        ),
        ("no.such.module:Thing", {}, "cannot import", "PYTHONPATH"),
        ("absent.py", {}, "there is no file", "looked in"),
        ("builtins:dict", {}, "not an interceptor", "derive"),
    ],
)
def test_wrong_settings_are_refused_with_the_fix(name, config, message, hint):
    with pytest.raises(UsageError, match=message) as raised:
        build_stage(StageSpec(name, config))
    if hint:
        assert hint in raised.value.hint


async def test_a_file_beside_the_config(opened, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from nemo_evaluator.adapters import Interceptor as Base\n"
        "class Interceptor(Base):\n"
        "    def __init__(self, key):\n"
        "        self.key = key\n"
        "    async def on_request(self, request):\n"
        "        request.body = {**request.body, self.key: 1}\n"
    )
    async with opened("ok", StageSpec("mine.py", {"key": "mine"}), base_dir=tmp_path) as both:
        await both.ask({"model": "m", "messages": []})
    assert both.server.requests[0].body["mine"] == 1
    with pytest.raises(UsageError, match="has no 'Other'"):
        build_stage(StageSpec("mine.py:Other"), tmp_path)


async def test_a_class_by_name_and_by_entry_point(opened, monkeypatch, tmp_path):
    (tmp_path / "third_party_shout.py").write_text(
        "from nemo_evaluator.adapters import Interceptor\n"
        "class Shout(Interceptor):\n"
        "    def __init__(self, mark='!'):\n"
        "        self.mark = mark\n"
        "    async def on_reply(self, request, reply):\n"
        "        message = reply.body['choices'][0]['message']\n"
        "        message['content'] = message['content'].upper() + self.mark\n"
        "        return reply\n"
    )
    info = tmp_path / "third_party_shout-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: third-party-shout\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[nemo_evaluator.interceptors]\nshout = third_party_shout:Shout\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(interceptor_registry, "_scanned", False)
    monkeypatch.setattr(interceptor_registry, "_targets", dict(interceptor_registry._targets))
    for name in ("third_party_shout:Shout", "shout"):
        async with opened("hi", StageSpec(name, {"mark": "?"})) as both:
            answer = await both.ask({"model": "m", "messages": []})
        assert answer.message["content"] == "HI?"


async def test_places_decide_the_order():
    class At(Interceptor):
        def __init__(self, name: str, place: int) -> None:
            self.name = name
            type(self).place = Place.EDIT
            self.place = place  # type: ignore[misc]

        async def on_request(self, request):
            request.notes.setdefault("order", []).append(self.name)

        async def on_reply(self, request, reply):
            request.notes["order"].append(f"-{self.name}")
            return reply

    async def endpoint(request):
        return ModelReply(200, {})

    request = ModelRequest("/x", {})
    await Pipeline([At("c", 30), At("a", 10), At("b1", 20), At("b2", 20)], endpoint)(request)
    assert request.notes["order"] == ["a", "b1", "b2", "c", "-c", "-b2", "-b1", "-a"]


async def test_an_early_answer_still_passes_every_reply_stage():
    class Early(Interceptor):
        async def on_request(self, request):
            return ModelReply(200, {"early": True})

    class Late(Interceptor):
        place = Place.LOG

        async def on_reply(self, request, reply):
            reply.body["late"] = True
            return reply

    async def endpoint(request):
        raise AssertionError("nobody is asked")

    reply = await Pipeline([Late(), Early()], endpoint)(ModelRequest("/x", {}))
    assert reply.body == {"early": True, "late": True}


async def test_best_effort_spares_the_request(caplog):
    class Clumsy(Interceptor):
        best_effort = True

        async def on_request(self, request):
            raise ValueError("oops")

        async def on_reply(self, request, reply):
            raise ValueError("oops again")

    async def endpoint(request):
        return ModelReply(200, {"fine": True})

    reply = await Pipeline([Clumsy()], endpoint)(ModelRequest("/x", {}))
    assert reply.body == {"fine": True}
    assert "oops again" in caplog.text
