"""The simple solver: what exactly reaches the model, in each protocol."""

import base64
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.models import Client, Endpoint
from nemo_evaluator.solvers.simple import ChatSolver, CompletionSolver, SimpleSolver, VLMSolver
from nemo_evaluator.testing import ScriptedServer

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 40


async def sent(
    task: SeedResult, kind: Any = SimpleSolver, protocol: str = "chat_completions", **settings: Any
) -> Any:
    """The body that a solver sends for a problem."""
    async with (
        ScriptedServer("42") as server,
        Client(
            Endpoint(
                "m", server.url, protocol=protocol, generation={"temperature": 0.1, "max_tokens": 5}
            )
        ) as client,
    ):
        result = await kind(client, **settings).solve(task)
        assert result.response == "42"
        return server.requests[0].body


async def test_a_prompt_becomes_a_user_message() -> None:
    body = await sent(SeedResult("Why?", "42", system="Task rules."))
    assert body["messages"] == [
        {"role": "system", "content": "Task rules."},
        {"role": "user", "content": "Why?"},
    ]


async def test_the_solvers_system_prompt_takes_the_place_of_the_problems_own() -> None:
    messages = [{"role": "system", "content": "Task rules."}, {"role": "user", "content": "Why?"}]
    body = await sent(SeedResult("Why?", "42", messages=messages), system_prompt="Be brief.")
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Why?"},
    ]


async def test_messages_go_as_they_are() -> None:
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "Why?"},
    ]
    body = await sent(SeedResult("Why?", "42", messages=messages), kind=ChatSolver)
    assert body["messages"] == messages


async def test_generation_of_the_solver_wins_field_by_field() -> None:
    body = await sent(SeedResult("Why?", "42"), generation={"temperature": 0.9})
    assert (body["temperature"], body["max_tokens"]) == (0.9, 5)


@pytest.mark.parametrize("settings", [{}, {"system_prompt": "Be brief."}])
async def test_text_completions_get_one_text(settings: dict[str, Any]) -> None:
    body = await sent(
        SeedResult("Why?", "42"), kind=CompletionSolver, protocol="completions", **settings
    )
    assert body["prompt"] == ("Be brief.\n\nWhy?" if settings else "Why?")
    assert "messages" not in body


@pytest.mark.parametrize("form", ["bytes", "path", "url", "data", "row"])
async def test_images_are_sent_whenever_the_problem_has_them(form: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    data = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    image: Any = {
        "bytes": PNG,
        "path": str(tmp_path / "a.png"),
        "url": "https://example.com/a.png",
        "data": data,
        "row": {"bytes": PNG, "path": "a.png"},
    }[form]
    body = await sent(SeedResult("What is it?", "42", images=[image]))
    (picture, text) = body["messages"][0]["content"]
    assert picture["image_url"] == {"url": image if form == "url" else data, "detail": "auto"}
    assert text == {"type": "text", "text": "What is it?"}


async def test_the_detail_is_the_configs() -> None:
    body = await sent(SeedResult("?", "42", images=[PNG]), kind=VLMSolver, image_detail="high")
    assert body["messages"][0]["content"][0]["image_url"]["detail"] == "high"


async def test_an_image_that_is_not_there_is_the_rows_fault() -> None:
    with pytest.raises(SeedError, match="no image"):
        await sent(SeedResult("?", "42", images=["/nowhere/x.png"]))
