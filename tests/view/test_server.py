"""The server: who is refused, what is served, rows by every filter, and runs that are not whole."""

from __future__ import annotations

import hashlib
import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from made_runs import records, write_run

from nemo_evaluator.runs.labels import read_labels
from nemo_evaluator.view.page_html import STATIC


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served") / "runs"
    steps = [records(at) for at in range(60)]
    steps[7] = records(
        7,
        response="x" * 300_000 + "the end",
        scoring_details={"tripwires": {"read the tests": "cat tests"}},
    )
    steps.append(records(5, 1, right=False))
    write_run(root / "base", steps=steps)
    write_run(root / "killed", 100, finished=False)
    torn = write_run(root / "torn", 20) / "sums"
    with (torn / "results.jsonl").open("rb+") as file:
        file.truncate((torn / "results.jsonl").stat().st_size - 40)
    write_run(root.parent / "outside", 5)
    outside = root / "links" / "sums"
    outside.mkdir(parents=True)
    (outside / "journal.jsonl").symlink_to(root.parent / "outside" / "sums" / "journal.jsonl")
    return root


@pytest.fixture(scope="module")
def served(runs: Path, serve: Callable[[Path], Any]) -> Any:
    return serve(runs)


def test_only_the_token_and_this_machine_are_let_in(served: Any) -> None:
    good = f"/{served.token}/api/runs"
    assert served.ask(good)[0] == 200
    assert served.ask("/api/runs")[0] == 403
    assert served.ask("/")[0] == 403
    assert served.ask(f"/{served.token[:-1]}/api/runs")[0] == 403
    assert served.ask(f"/{served.token}x/")[0] == 403
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert served.ask(good, Host=host)[0] in (400, 421), host
    assert served.ask(good, Host="localhost:9999")[0] == 200
    assert served.ask(good, Origin="http://evil.example")[0] == 403
    key = served.key("base")
    path = f"/{served.token}/api/label?run={key}&bench=sums&problem=1&repeat=0"
    assert served.ask(path, "POST", '{"label": "wrong"}', Origin="http://127.0.0.1:1")[0] == 403
    assert served.ask(path)[0] in (404, 405)


@pytest.mark.parametrize(
    "bad", ["../outside", "..%2foutside", "/etc", "%2e%2e", "a\x00b", "9" * 400]
)
def test_no_parameter_leads_out_of_the_given_paths(served: Any, bad: str) -> None:
    key = served.key("base")
    where = {
        "run": key,
        "bench": "sums",
        "problem": "1",
        "repeat": "0",
        "path": "row/prompt",
        "runs": key,
    }
    for name in (
        "run",
        "figures",
        "facets",
        "rows",
        "row",
        "labels",
        "text",
        "search",
        "export",
        "compare",
    ):
        for parameter in where:
            said = "&".join(
                f"{one}={bad if one == parameter else value}".replace("\x00", "%00")
                for one, value in where.items()
            )
            status, body = served.ask(f"/{served.token}/api/{name}?{said}")
            assert status in (200, 400), (name, parameter, body)
            assert b"root:" not in body and b"outside" not in body.replace(
                unquote(bad).encode(), b""
            )
    for path in (
        f"/{served.token}/{bad}",
        f"/{served.token}/vendor/../../server.py",
        f"/{served.token}/..%2fserver.py",
    ):
        assert served.ask(path.replace("\x00", "%00"))[0] in (400, 403, 404)


def test_a_file_that_leads_out_of_its_run_is_refused(served: Any) -> None:
    status, body = served.ask(f"/{served.token}/api/rows?run={served.key('links')}&bench=sums")
    assert status == 400 and b"leads out of the run" in body


def test_headers_allow_no_inline_script_and_nothing_from_elsewhere(served: Any) -> None:
    with urllib.request.urlopen(served.url) as reply:
        policy = dict(
            part.strip().split(" ", 1)
            for part in reply.headers["content-security-policy"].split(";")
        )
    assert (
        policy["default-src"] == "'none'"
        and policy["script-src"] == "'self'"
        and policy["connect-src"] == "'self'"
    )
    assert (reply.headers["referrer-policy"], reply.headers["x-content-type-options"]) == (
        "no-referrer",
        "nosniff",
    )


def test_rows_by_filter_order_and_page(served: Any) -> None:
    where = {"run": served.key("base"), "bench": "sums"}

    def numbers(**query: object) -> list[int]:
        return [row["problem_idx"] for row in served.api("rows", **where, **query)["rows"]]

    assert served.api("rows", **where)["total"] == 61
    assert numbers(limit=2, offset=3) == [3, 4]
    assert numbers(sort="-tokens", limit=2) == [59, 58]
    assert numbers(status="failed") == numbers(cause="transport") == [12, 25, 38, 51]
    assert numbers(truncated=1) == [10, 21, 32, 43, 54]
    assert numbers(tripped=1) == [7]
    assert numbers(min_tokens=88, max_tokens=89) == [58, 59]
    assert numbers(min_latency_ms=506) == [58, 59]
    assert numbers(category="logic", max_reward=0.5) == [5]
    facets = served.api("facets", **where)
    assert facets["metadata"] == ["category", "level"] and ["transport", 4] in facets["cause"]
    status, body = served.ask(
        f"/{served.token}/api/rows?run={where['run']}&bench=sums&min_tokens=many"
    )
    assert status == 400 and b"not a number" in body


def test_search_finds_text_and_metadata(served: Any) -> None:
    key = served.key("base")

    def found(said: str) -> list[int]:
        _, body = served.ask(f"/{served.token}/api/search?run={key}&bench=sums&{said}")
        lines = [json.loads(line) for line in body.splitlines()]
        assert lines[-1]["done"] is True
        return [line["problem_idx"] for line in lines if "problem_idx" in line]

    assert found("text=WHAT+IS+7+%2B") == [7]
    assert found("text=the+end&in=answer") == [7]
    assert found("text=the+end&in=prompt") == []
    assert found("meta.level=3&category=algebra") == [3, 18, 33, 48]


def test_a_row_has_what_was_sent_and_its_long_answer_in_parts(served: Any) -> None:
    where = {"run": served.key("base"), "bench": "sums", "problem": 7, "repeat": 0}
    row = served.api("row", **where)
    assert [message["role"] for message in row["sent"]] == ["system", "user"]
    assert row["answer"]["reasoning_content"] == "I add two to 7."
    assert (
        row["cut"]["row/model_response"] == 300_007 and len(row["row"]["model_response"]) == 65_536
    )
    assert any("--only 000000000000" in one["command"] for one in row["commands"])
    status, text = served.ask(
        f"/{served.token}/api/text?run={where['run']}&bench=sums&problem=7&repeat=0&path=row/model_response&from=299990"
    )
    assert (status, text) == (200, b"x" * 10 + b"the end")
    assert [one["repeat"] for one in served.api("row", **where | {"problem": 5})["repeats"]] == [
        0,
        1,
    ]


def test_labels_are_kept_beside_the_run_and_exported_with_its_rows(served: Any, runs: Path) -> None:
    key = served.key("base")
    path = f"/{served.token}/api/label?run={key}&bench=sums&problem=4&repeat=0"
    status, _ = served.ask(path, "POST", '{"label": "unsure", "note": "=1+1", "who": "ada"}')
    assert status == 200
    assert read_labels(runs / "base" / "sums")[4, 0].who == "ada"
    assert served.ask(path, "POST", '{"label": "maybe"}')[0] == 400
    assert served.ask(path, "POST", "no json")[0] == 400
    assert [
        row["problem_idx"] for row in served.api("rows", run=key, bench="sums", label="any")["rows"]
    ] == [4]
    assert served.api("rows", run=key, bench="sums", label="none")["total"] == 60
    said = f"/{served.token}/api/export?run={key}&bench=sums&category=geometry"
    lines = [json.loads(line) for line in served.ask(f"{said}&format=jsonl")[1].splitlines()]
    assert len(lines) == 20 and [line["human"]["label"] for line in lines if "human" in line] == [
        "unsure"
    ]
    table = served.ask(f"{said}&format=csv")[1].decode().splitlines()
    assert table[0].startswith("problem_idx,repeat,status") and ",unsure,'=1+1,ada" in "\n".join(
        table
    )


def test_runs_that_are_not_whole_say_what_is_missing(served: Any) -> None:
    killed = served.api("run", run=served.key("killed"))
    assert killed["state"] == "unfinished" and "has no bundle" in killed["parts"][0]["missing"][0]
    assert (
        served.api("figures", run=served.key("killed"), bench="sums")["html"].count("<figure") >= 2
    )
    torn = " ".join(served.api("run", run=served.key("torn"))["parts"][0]["missing"])
    assert "was cut off" in torn and "counts 20 rows, 19 can be read" in torn


def test_vendored_scripts_are_what_was_taken_and_have_their_licences() -> None:
    noted = json.loads((STATIC / "vendor" / "VENDORED.json").read_text())
    scripts = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").glob("*.js")
    }
    assert {one["file"]: one["sha256"] for one in noted} == scripts
    licences = (STATIC / "vendor" / "LICENSES.txt").read_text()
    assert all(f"# {one['package']} {one['version']}\n" in licences for one in noted)


def test_the_server_stays_small(served: Any) -> None:
    pages = int(Path(f"/proc/{served.pid}/statm").read_text().split()[1])
    assert pages * os.sysconf("SC_PAGE_SIZE") < 150 * 2**20
