"""Tools of a real FastAPI server."""

from __future__ import annotations

import asyncio
from typing import Any

import jsonschema
import pytest

from nemo_evaluator.core.errors import TransportError
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.solvers.tools.gym import GymTools, endpoints_of, resolve

pytestmark = [
    pytest.mark.needs("fastapi"),
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
]


def _task(**metadata: Any) -> SeedResult:
    return SeedResult("q", "a", metadata=metadata)


@pytest.fixture
async def tools(gym: Any) -> Any:
    return GymTools("tools", gym.url)


async def test_every_post_path_that_is_not_the_servers_own_is_a_tool(tools: GymTools) -> None:
    session = await tools.open(_task(), None)
    offered = {tool.name: tool for tool in await session.tools()}
    assert sorted(offered) == ["broken", "depth", "items_{item}_count", "slow", "web_search"]
    search = offered["web_search"]
    assert search.description == "Search the web."
    assert search.parameters["required"] == ["query"]
    assert "title" not in search.parameters
    assert offered["items_{item}_count"].parameters["required"] == ["item", "query"]
    await session.close()


async def test_a_recursive_schema_stays_recursive_and_valid(tools: GymTools) -> None:
    session = await tools.open(_task(), None)
    schema = next(tool for tool in await session.tools() if tool.name == "depth").parameters
    jsonschema.Draft202012Validator.check_schema(schema)
    nested = {"label": "a", "children": [{"label": "b", "children": [{"label": "c"}]}]}
    jsonschema.validate(nested, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"label": "a", "children": [{"label": "b", "children": [{}]}]}, schema)
    assert (await session.call("depth", nested, 5)).content == "3"
    await session.close()


async def test_nested_paths_and_places_are_called_at_their_own_path(tools: GymTools) -> None:
    session = await tools.open(_task(), None)
    assert '"city": "nowhere"' in (await session.call("web_search", {"query": "x"}, 5)).content
    assert (
        await session.call("items_{item}_count", {"item": "a ü?#", "query": "n"}, 5)
    ).content == "a ü?#:n"
    missing = await session.call("items_{item}_count", {"query": "n"}, 5)
    assert (missing.content, missing.is_error) == ("Required arguments are missing: item.", True)
    up = await session.call("items_{item}_count", {"item": "..", "query": "n"}, 5)
    assert (up.content, up.is_error) == (
        "The argument 'item' must not be empty, '.' or '..'.",
        True,
    )
    await session.close()


async def test_each_problem_has_a_session_of_its_own_even_side_by_side(tools: GymTools) -> None:
    async def ask(city: str) -> str:
        session = await tools.open(_task(city=city), None)
        for _ in range(2):
            result = await session.call("web_search", {"query": "x", "limit": 1}, 5)
        await session.close()
        return result.content

    answers = await asyncio.gather(*(ask(f"city{at}") for at in range(8)))
    for at, answer in enumerate(answers):
        assert f'"city": "city{at}"' in answer
        assert '"calls": 2' in answer


async def test_errors_of_a_tool_are_told_to_the_model(tools: GymTools) -> None:
    session = await tools.open(_task(), None)
    invalid = await session.call("web_search", {"limit": "many"}, 5)
    assert invalid.is_error
    assert invalid.content.startswith("HTTP 422")
    assert (await session.call("broken", {}, 5)).content.startswith("HTTP 500")
    late = await session.call("slow", {}, 0.2)
    assert (late.content, late.is_error) == ("The tool timed out after 0.2 s.", True)
    await session.close()


async def test_a_server_that_is_not_there_is_a_failure_of_the_harness() -> None:
    source = GymTools("tools", "http://127.0.0.1:9")
    with pytest.raises(TransportError, match="cannot read the tools of 'tools'"):
        await source.open(_task(), None)


def test_schemas_that_know_each_other_do_not_overflow() -> None:
    schemas = {
        "A": {"type": "object", "properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {
            "type": "object",
            "properties": {
                "a": {"$ref": "#/components/schemas/A"},
                "c": {"$ref": "#/components/schemas/C"},
            },
        },
        "C": {"type": "string", "title": "See"},
    }
    schema = resolve({"$ref": "#/components/schemas/A"}, schemas)
    jsonschema.validate({"b": {"a": {"b": {"c": "x"}}}}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"b": {"a": {"b": {"c": 1}}}}, schema)
    assert schema["$defs"]["B"]["properties"]["c"] == {"type": "string"}


def test_a_property_called_title_is_kept() -> None:
    body = {
        "type": "object",
        "title": "Book",
        "properties": {"title": {"type": "string", "title": "Title"}},
    }
    document = {
        "paths": {
            "/x": {"post": {"requestBody": {"content": {"application/json": {"schema": body}}}}}
        }
    }
    assert endpoints_of(document)[0].parameters == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
    }
