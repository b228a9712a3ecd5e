"""The last step of the action, against a stand-in for GitHub's API: one comment per config, replaced by each push."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOKEN = "ghs_of_the_test"


class GitHub(ThreadingHTTPServer):
    """Comments of pull request 7 of ``org/repo``, a hundred on a page."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments: dict[int, str] = {}
        self.read_only = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: GitHub

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = parse_qs(parts.query)
        size, page = int(asked["per_page"][0]), int(asked["page"][0])
        found = [{"id": key, "body": body} for key, body in self.server.comments.items()]
        self.answer(
            200 if parts.path == "/repos/org/repo/issues/7/comments" else 404,
            found[(page - 1) * size :][:size],
        )

    def do_POST(self) -> None:
        known = self.path == "/repos/org/repo/issues/7/comments"
        self.keep(max(self.server.comments, default=0) + 1 if known else None, 201)

    def do_PATCH(self) -> None:
        found = re.fullmatch(r"/repos/org/repo/issues/comments/(\d+)", self.path)
        self.keep(int(found[1]) if found and int(found[1]) in self.server.comments else None, 200)

    def keep(self, key: int | None, status: int) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["body"]
        if self.server.read_only:
            self.answer(403, {"message": "Resource not accessible by integration"})
        elif key is None or len(body) > 65_536:
            self.answer(404 if key is None else 422, {})
        else:
            self.server.comments[key] = body
            self.answer(status, {"id": key})

    def answer(self, status: int, data: Any) -> None:
        allowed = self.headers["Authorization"] == f"Bearer {TOKEN}"
        self.send_response(status if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(data).encode())

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def github() -> Iterator[GitHub]:
    server = GitHub()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def step(
    github: GitHub, folder: Path, report: str | None, config: str = "c.yaml", **more: str
) -> str:
    """The step as a runner would do it; returns what it printed."""
    if report is not None:
        (folder / "gate.md").write_text(report)
    (own,) = [
        one
        for one in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
        if one["name"] == "comment"
    ]
    known = {
        "github.token": TOKEN,
        "github.action_path": str(ROOT),
        "github.event.number": "7",
        "inputs.config": config,
        "inputs.output": str(folder),
    }
    values = {
        k: re.sub(r"\$\{\{ (\S+) \}\}", lambda one: known[one[1]], text)
        for k, text in own["env"].items()
    }
    runner = {
        "GITHUB_API_URL": github.url,
        "GITHUB_REPOSITORY": "org/repo",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
    }
    command = ["bash", "-eo", "pipefail", "-c", own["run"]]
    done = subprocess.run(
        command,
        env={**os.environ, **values, **runner, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_push_comments_and_the_next_replaces_its_own(
    github: GitHub, tmp_path: Path
) -> None:
    github.comments = {number: f"comment {number} of somebody else" for number in range(1, 151)}
    step(github, tmp_path, '# GO\n\nquickstart: 0.91 `$(rm -rf /)` "quoted" ü\n')
    assert (
        github.comments[151]
        == '<!-- nel: c.yaml -->\n# GO\n\nquickstart: 0.91 `$(rm -rf /)` "quoted" ü\n'
    )
    github.comments[152] = "a person answers"
    step(github, tmp_path, "# NO-GO\n")
    step(github, tmp_path, "# GO\n", config="other.yaml")
    assert [github.comments[number] for number in (151, 152, 153)] == [
        "<!-- nel: c.yaml -->\n# NO-GO\n",
        "a person answers",
        "<!-- nel: other.yaml -->\n# GO\n",
    ]
    assert github.comments[1] == "comment 1 of somebody else"


def test_long_reports_are_cut_and_missing_ones_are_nothing(github: GitHub, tmp_path: Path) -> None:
    assert "nothing to comment" in step(github, tmp_path, None)
    assert github.comments == {}
    step(github, tmp_path, "x" * 200_000)
    assert github.comments[1].endswith("cut off; the whole report is in the summary of the job.\n")


def test_a_token_that_may_not_comment_is_a_warning(github: GitHub, tmp_path: Path) -> None:
    github.read_only = True
    said = step(github, tmp_path, "# GO\n")
    assert said.startswith("::warning::not commented (HTTP 403)") and TOKEN not in said
    assert "HTTP 401" in step(github, tmp_path, "# GO\n", GH_TOKEN="expired")
