"""A Gym server by command: its port, its two ways to be healthy, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest

from nemo_evaluator.config import GymService
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.processes import free_port
from nemo_evaluator.services import service_identity, start_services

# As native Gym servers do, it has no /health.
GYM = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/openapi.json" else 404)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def gym(**settings: object) -> SimpleNamespace:
    return SimpleNamespace(
        services={"g": GymService.model_validate({"type": "gym", "port": free_port(), **settings})}
    )


async def test_a_server_without_health_is_found_by_its_openapi_page(tmp_path: Path) -> None:
    script = tmp_path / "gym.py"
    script.write_text(GYM)
    config = gym(server_cmd=f"{sys.executable} {script}", startup_timeout=20)
    async with start_services(config, tmp_path, say=lambda _: None) as running:
        assert running["g"].url == f"http://127.0.0.1:{config.services['g'].port}"
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{running['g'].url}/openapi.json") as response,
        ):
            assert response.status == 200
    assert "openapi.json" in (tmp_path / "logs" / "server-g.log").read_text()


async def test_a_running_server_is_left_alone(tmp_path: Path) -> None:
    config = gym(url="http://127.0.0.1:9")
    async with start_services(config, tmp_path) as running:
        assert running["g"].url == "http://127.0.0.1:9"
    assert service_identity(config.services["g"]) is None


async def test_nothing_to_start_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"services\.g: there is nothing to start"):
        async with start_services(gym(), tmp_path):
            pytest.fail("must not get here")
