"""What a ``gym://`` URI may say, and what goes over the wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import MissingExtraError, OutageError, TransportError, UsageError
from nemo_evaluator.core.types import PromptRequest, SandboxSpec, SeedResult
from nemo_evaluator.environments.registry import get_environment
from nemo_evaluator.environments.schemes.gym_client import GymClient, new_jar
from nemo_evaluator.environments.schemes.gym_wire import (
    GymSeed,
    assistant_text,
    native_response,
    native_row,
    native_seed,
    seed_json,
    seed_of,
    verdict_of,
)


@pytest.mark.parametrize(
    ("uri", "params", "told"),
    [
        ("gym://a/b", {}, "names no Gym server"),
        ("gym://", {}, "names no Gym server"),
        ("gym://127.0.0.1:9?protocol=odd", {}, "no protocol 'odd'"),
        ("gym://127.0.0.1:9?date=x", {}, "unknown setting 'date'"),
        ("gym://127.0.0.1:9", {"protocol": "native"}, "has no problems"),
        ("gym://127.0.0.1:9?data=nowhere.jsonl", {}, "nowhere.jsonl does not exist"),
    ],
)
def test_what_is_refused(uri: str, params: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        get_environment(uri, params=params)


async def test_a_problem_survives_the_wire() -> None:
    spec = SandboxSpec(image="i", env={"a": "b"})
    seed = SeedResult(
        "ask",
        "4",
        {"n": 1, "list": [1]},
        [{"role": "user", "content": [{"type": "text", "text": "ask"}]}],
        "system",
        ["data:image/png;base64,AA"],
        spec,
        capture_cmd="tar",
        shown=frozenset({"n"}),
        requests=[PromptRequest("a", 3)],
    )
    back = seed_of(json.loads(json.dumps(seed_json(seed))), 7, new_jar())
    assert SeedResult(*(getattr(back, name) for name in SeedResult.__slots__)) == seed
    assert back.idx == 7 and replace(back, prompt="other").cookies is back.cookies


@pytest.mark.parametrize(
    "reply", [{}, {"prompt": 3}, {"prompt": "a", "metadata": []}, {"prompt": "a", "requests": [{}]}]
)
async def test_no_problem_is_named(reply: dict[str, Any]) -> None:
    with pytest.raises(TransportError, match="/seed_session gave"):
        seed_of(reply, 0, new_jar())


@pytest.mark.parametrize("reward", [None, "1.0", True, [1]])
def test_no_reward_is_no_verdict(reward: Any) -> None:
    with pytest.raises(TransportError, match="no reward"):
        verdict_of({"reward": reward})


@pytest.mark.needs("mirror")
async def test_rows_that_gym_publishes(mirror_dir: Path) -> None:
    for file in sorted((mirror_dir / "gym_examples").glob("*.jsonl")):
        for number, line in enumerate(file.read_text().splitlines()):
            row = json.loads(line)
            seed = native_seed(row, number, new_jar())
            assert seed.prompt and isinstance(seed.prompt, str) and seed.messages, file.name
            assert native_row(seed) is row
            assert "responses_create_params" not in seed.metadata


@pytest.mark.needs("mirror")
def test_what_an_assistant_said_in_published_rollouts(mirror_dir: Path) -> None:
    for line in (mirror_dir / "gym_examples" / "mcqa_rollouts.jsonl").read_text().splitlines():
        text = assistant_text(json.loads(line)["response"])
        assert "\\boxed" in text
    assert assistant_text(native_response("B")) == "B"
    assert assistant_text({"choices": [{"message": {"content": "C"}}]}) == "C"
    assert assistant_text({"output": []}) == ""


def test_a_row_for_another_benchmarks_problem() -> None:
    seed = SeedResult("Q", "4", {"source": "byob", "level": 2, "tools": [{"name": "t"}]})
    row = native_row(seed)
    assert row["responses_create_params"] == {
        "input": [{"role": "user", "content": "Q"}],
        "tools": [{"name": "t"}],
    }
    assert (
        row["verifier_metadata"] == {"level": 2}
        and row["level"] == 2
        and row["expected_answer"] == "4"
    )
    assert not isinstance(seed, GymSeed)


def test_a_server_of_nemo_gym_without_its_extra_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="NeMo Gym is not installed") as caught:
        get_environment("gym://module:nemo_gym.servers.math")
    assert "nemo-evaluator[gym]" in str(caught.value.hint)


@pytest.mark.parametrize("known", [True, False], ids=["ours", "not_ours"])
async def test_a_server_that_dies_under_a_request_is_an_outage(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nemo_evaluator.environments.schemes.gym_client._PAUSES", (0.01, 0.01))
    async with dying_server(taken=3) as server:
        lost = lambda: "it exited with code 7" if server.gone.is_set() else None  # noqa: E731
        client = GymClient(server.url, lost=lost if known else None)
        with pytest.raises(OutageError, match="code 7" if known else "nothing answers"):
            await client.post("/verify", {})
        await client.close()
    assert server.asked == ["POST /verify", "GET /health", "GET /health"]


async def test_a_server_that_drops_one_request_and_lives_fails_that_one() -> None:
    async with dying_server(taken=1, comes_back=True) as server:
        client = GymClient(server.url)
        with pytest.raises(TransportError, match="Disconnected") as told:
            await client.post("/verify", {})
        await client.close()
    assert not isinstance(told.value, OutageError) and server.asked == [
        "POST /verify",
        "GET /health",
    ]


class Dying:
    """A server that drops its first connections, as a process does that is being killed; then it is gone or answers."""

    def __init__(self, taken: int, comes_back: bool) -> None:
        self.url, self.asked, self.gone = "", list[str](), asyncio.Event()
        self._taken, self._comes_back = taken, comes_back

    async def begin(self) -> asyncio.Server:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self._server

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(" ".join(head.decode().split()[:2]))
        if len(self.asked) > self._taken:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        elif len(self.asked) == self._taken and not self._comes_back:
            self._server.close()
            self.gone.set()
        writer.close()


@asynccontextmanager
async def dying_server(taken: int, comes_back: bool = False) -> AsyncIterator[Dying]:
    server = Dying(taken, comes_back)
    async with await server.begin():
        yield server
