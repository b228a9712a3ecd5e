"""Interceptors of the documented shape, and the order in which stages run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.adapters import (
    AdapterRequest,
    AdapterResponse,
    InterceptorRegistry,
    RequestInterceptor,
    RequestToResponseInterceptor,
    ResponseInterceptor,
    open_client,
)
from nemo_evaluator.adapters.types import get_context
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.models.endpoint import Endpoint, StageSpec
from nemo_evaluator.testing import ScriptedServer

ASK = [{"role": "user", "content": "hi"}]


@InterceptorRegistry.register("signed_in_tests")
class Signed(RequestInterceptor, ResponseInterceptor):
    def __init__(self, name: str = "x") -> None:
        self.name = name

    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
        req.body["user"] = self.name
        req.ctx.extra["asked"] = req.path
        assert get_context() is req.ctx
        return req

    async def intercept_response(self, resp: AdapterResponse) -> AdapterResponse:
        assert resp.ok and resp.ctx.extra["asked"] == "/chat/completions"
        assert isinstance(resp.body, dict)
        resp.body["choices"][0]["message"]["content"] += "!"
        return resp


class Canned(RequestToResponseInterceptor):
    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest | AdapterResponse:
        message = {"role": "assistant", "content": "from the shelf"}
        return AdapterResponse(
            200, {}, {"choices": [{"message": message, "finish_reason": "stop"}]}
        )


class Broken(RequestInterceptor):
    best_effort = True

    async def intercept_request(self, req: AdapterRequest) -> AdapterRequest:
        raise ValueError("not today")


class Wrong(RequestInterceptor):
    async def intercept_request(self, req: AdapterRequest) -> Any:
        return None


for kind in (Canned, Broken, Wrong):
    InterceptorRegistry.register(f"{kind.__name__.lower()}_in_tests")(kind)


async def asked(
    server: ScriptedServer, *stages: tuple[str, dict[str, Any]], base_dir: Path | None = None
) -> Any:
    specs = [StageSpec(name, config) for name, config in stages]
    async with open_client(Endpoint("m", server.url, stages=specs, base_dir=base_dir)) as client:
        return await client.chat(ASK, generation={"seed": 7})


async def test_a_documented_interceptor_changes_requests_and_responses() -> None:
    async with ScriptedServer("ok") as server:
        reply = await asked(server, ("signed_in_tests", {"name": "ann"}), ("broken_in_tests", {}))
        assert reply.content == "ok!"
        assert server.requests[0].body["user"] == "ann"
        assert (await asked(server, ("canned_in_tests", {}))).content == "from the shelf"
        assert server.count == 1
        with pytest.raises(UsageError, match="intercept_request of Wrong returned NoneType"):
            await asked(server, ("wrong_in_tests", {}))
        with pytest.raises(UsageError, match="no setting 'nme'"):
            await asked(server, ("signed_in_tests", {"nme": "ann"}))


async def test_a_documented_interceptor_beside_the_config(tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "from nemo_evaluator.adapters import RequestInterceptor\n"
        "class Loud(RequestInterceptor):\n"
        "    async def intercept_request(self, req):\n"
        "        req.body['user'] = 'LOUD'\n"
        "        return req\n"
    )
    async with ScriptedServer("ok") as server:
        await asked(server, ("loud.py:Loud", {}), base_dir=tmp_path)
        assert server.requests[0].body["user"] == "LOUD"


async def test_stages_that_change_requests_run_as_they_are_listed() -> None:
    drop = ("drop_params", {"params": ["seed", "user"]})
    add = ("payload_modifier", {"params_to_add": {"seed": 9}})
    sign = ("signed_in_tests", {"name": "ann"})
    async with ScriptedServer("ok") as server:
        for stages, seed, user in (
            ((drop, add), 9, None),
            ((add, drop), None, None),
            ((sign, drop), None, None),
            ((drop, sign), None, "ann"),
        ):
            await asked(server, *stages)
            body = server.requests[-1].body
            assert (body.get("seed"), body.get("user")) == (seed, user)


def test_the_order_of_stages_is_part_of_the_fingerprint() -> None:
    one, other = StageSpec("drop_params", {"params": ["a"]}), StageSpec("modify_tools", {})
    described = [
        Endpoint("m", "http://x/v1", stages=stages).describe()
        for stages in ([one, other], [other, one])
    ]
    assert described[0] != described[1]
    assert described[0]["interceptor_order"] == "as listed"
    assert "interceptor_order" not in Endpoint("m", "http://x/v1", stages=[one]).describe()
