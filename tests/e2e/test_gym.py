"""``gym://`` and ``nel serve``: the score over HTTP is the local one, and a server that fails is never a zero."""

from __future__ import annotations

import json
import shlex
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.core.processes import free_port
from nemo_evaluator.testing import validate_trajectory

STAND_IN = Path(__file__).parents[1] / "support" / "gym_stand_in.py"
CMD = f"gym://cmd:exec {shlex.quote(sys.executable)} {shlex.quote(str(STAND_IN))}"
# When it happened and who handed the problem over; everything else must be the same.
CLOCK = {"latency_ms", "timing", "started_at", "finished_at", "duration_ms", "benchmark"}


def doubles(seen: Any) -> str:
    """Right for even numbers, wrong for odd ones."""
    n = int(seen.body["messages"][-1]["content"].split()[3])
    return str(2 * n + n % 2)


def run(
    nel: Nel, url: str, name: str, out: str, *words: str, code: int | None = 0, **more: Any
) -> str:
    config = nel.config(
        f"{out}.yaml",
        services={"model": api(url)},
        benchmarks=[bench(name, **more)],
        output={"dir": out},
    )
    done = nel("eval", "run", config, *words, code=code)
    return done.stdout + done.stderr


def folder(nel: Nel, out: str) -> Path:
    (found,) = (nel.folder / out).glob("*/results.jsonl")
    return found.parent


@contextmanager
def served(nel: Nel, *words: str) -> Iterator[dict[str, Any]]:
    process = nel.start("serve", "--port", "0", "--json", *words)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield json.loads(line)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.communicate()


def test_rows_over_http_are_the_local_ones(nel: Nel, serve: Serve, sums: Sums) -> None:
    server, file = serve(doubles), sums(8)
    run(nel, server.url, file, "local")
    run(nel, server.url, f"gym://{file}", "managed")
    with served(nel, "-b", file) as started:
        nel.env["NEL_SERVE_TOKEN"] = started["token"]
        run(nel, server.url, started["url"].replace("http", "gym"), "external")
    local = rows(folder(nel, "local"), CLOCK)
    assert [row["reward"] for row in local] == [1.0, 0.0] * 4
    for out in ("managed", "external"):
        remote = rows(folder(nel, out), CLOCK)
        assert {row["scoring_details"].pop("scored_by") for row in remote} == {"the Gym server"}
        assert remote == local


def test_exported_rows_are_judged_in_the_native_protocol(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server, file = serve(doubles), sums(4)
    said = nel("serve", "-b", file, "--export-data", "data", timeout=60).stdout
    assert "4 rows" in said
    row = json.loads((nel.folder / "data" / "sums.jsonl").read_text().splitlines()[3])
    assert (
        row["uuid"] == "sums-3"
        and row["expected_answer"] == "6"
        and row["responses_create_params"]["input"]
    )
    with served(nel, "-b", file, "--gym-compat", "--no-token") as started:
        health = json.loads(urllib.request.urlopen(f"{started['url']}/health").read())
        assert health == {"status": "ok", "benchmark": "sums", "dataset_size": 4, "protocol": "gym"}
        place = started["url"].replace("http", "gym")
        run(nel, server.url, f"{place}?protocol=native&data=data/sums.jsonl", "native")
    got = rows(folder(nel, "native"))
    assert [(row["expected_answer"], row["reward"]) for row in got] == [
        ("0", 1.0),
        ("2", 0.0),
        ("4", 1.0),
        ("6", 0.0),
    ]


def test_the_token_is_asked_for(nel: Nel, serve: Serve, sums: Sums) -> None:
    file = sums(3)
    with served(nel, "-b", file) as started:
        for path, body in (("/dataset_size", None), ("/verify", b"{}"), ("/seed_session", b"{}")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{started['url']}{path}", data=body)
            assert refused.value.code == 401
            refused.value.close()
        server = serve(doubles)
        said = run(nel, server.url, started["url"].replace("http", "gym"), "refused", code=2)
        assert "401" in said and "NEL_SERVE_TOKEN" in said
        assert not server.requests
    said = nel("serve", "-b", file, "--no-token", "--host", "192.0.2.1", code=1).stderr
    assert "loopback" in said
    assert "every network" in nel("serve", "-b", file, "--host", "0.0.0.0", code=1).stderr


def test_a_wrong_number_is_refused(nel: Nel, sums: Sums) -> None:
    with served(nel, "-b", sums(3), "--no-token") as started:
        for path, body in (
            ("/seed_session", {"idx": 3}),
            ("/seed_session", {"idx": "1"}),
            ("/verify", {"expected": "2"}),
            ("/verify", {"response": "2", "expected": "9", "idx": 1}),
        ):
            request = urllib.request.Request(
                f"{started['url']}{path}", data=json.dumps(body).encode()
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request)
            assert refused.value.code == 400, body
            refused.value.close()


def test_each_rollout_has_its_own_session(nel: Nel, serve: Serve) -> None:
    run(nel, serve(doubles).url, CMD, "out", repeats=2)
    got = rows(folder(nel, "out"))
    assert len(got) == 12 and all(row["scoring_details"]["own_session"] for row in got)
    assert [row["reward"] for row in got if row["repeat"] == 0] == [1.0, 0.0] * 3


def test_native_sessions_begin_before_the_verdict(nel: Nel, serve: Serve) -> None:
    lines = [
        {
            "responses_create_params": {"input": f"How much is {n} + {n}?"},
            "expected_answer": str(2 * n),
            "uuid": str(n),
        }
        for n in range(3)
    ]
    (nel.folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run(nel, serve(doubles).url, CMD, "out", params={"data": "rows.jsonl"})
    got = rows(folder(nel, "out"))
    assert [row["reward"] for row in got] == [1.0, 0.0, 1.0]
    assert all(row["scoring_details"]["own_session"] for row in got)
    said = run(nel, serve(doubles).url, CMD, "gone", params={"data": "nowhere.jsonl"}, code=2)
    assert "nowhere.jsonl does not exist" in said
    said = run(nel, serve(doubles).url, CMD, "none", params={"protocol": "native"}, code=2)
    assert "has no problems" in said and "data" in said


def test_a_module_is_served(nel: Nel, serve: Serve) -> None:
    (nel.folder / "riddles.py").write_text(
        "import json\n"
        "async def app(scope, receive, send):\n"
        "    if scope['type'] != 'http':\n        return\n"
        "    body = json.loads((await receive()).get('body') or b'{}')\n"
        "    n = body.get('idx', 0)\n"
        "    replies = {'/seed_session': {'prompt': f'How much is {n} + {n}?', 'expected_answer': str(2 * n)},\n"
        "               '/verify': {'reward': float(body.get('response') == body.get('expected'))},\n"
        "               '/dataset_size': {'size': 2}, '/openapi.json': {}}\n"
        "    reply = replies.get(scope['path'])\n"
        "    await send({'type': 'http.response.start', 'status': 200 if reply is not None else 404, 'headers': []})\n"
        "    await send({'type': 'http.response.body', 'body': json.dumps(reply).encode()})\n"
    )
    nel.env["PYTHONPATH"] = str(nel.folder)
    run(nel, serve(doubles).url, "gym://module:riddles", "out")
    assert [row["reward"] for row in rows(folder(nel, "out"))] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("garbage", "not JSON: <html>hello"),
        ("no_reward", "gave no reward"),
        ("broken", "answered 500"),
    ],
)
def test_a_bad_reply_is_named_and_no_zero(nel: Nel, serve: Serve, fault: str, told: str) -> None:
    nel.env["FAULT"] = fault
    more = {"max_problems": 2, "max_system_retries": 1}
    said = run(nel, serve(doubles).url, CMD, "out", code=3, **more)
    got = rows(folder(nel, "out"))
    assert [row["reward"] for row in got] == [None, None] and all(
        told in row["failure"]["message"] for row in got
    )
    assert "INVALID" in said


def test_a_server_that_dies_ends_the_run_and_nothing_is_asked_twice(nel: Nel, serve: Serve) -> None:
    server = serve(doubles)
    nel.env["FAULT"] = "die"
    more = {"max_concurrent": 1, "shuffle_seed": None}
    said = run(nel, server.url, CMD, "out", code=2, **more)
    assert "exited with code 7" in said and "--resume" in said
    assert [row["reward"] for row in rows(folder(nel, "out"))] == [1.0, 0.0]
    nel.env.pop("FAULT")
    run(nel, server.url, CMD, "out", "--resume", **more)
    assert [row["reward"] for row in rows(folder(nel, "out"))] == [1.0, 0.0] * 3
    asked = [seen.body["messages"][-1]["content"] for seen in server.requests]
    assert len(asked) == len(set(asked)) == 6


def test_nobody_there(nel: Nel, serve: Serve) -> None:
    server = serve(doubles)
    said = run(nel, server.url, "gym://127.0.0.1:9", "out", code=2)
    assert "nothing answers at http://127.0.0.1:9" in said and not server.requests
    said = run(nel, server.url, "gym://cmd:echo no such gym; exit 3", "start", code=2)
    assert "no such gym" in said and "code 3" in said


def delegate(
    nel: Nel, serve: Serve, out: str, name: str, code: int | None = 0, tries: int = 1, **solver: Any
) -> tuple[Any, str]:
    """Run a benchmark whose answers come from the agent of a Gym server that we start."""
    server = serve(doubles)
    solver = {"type": "gym_delegation", "service": "model", "gym_service": "gym", **solver}
    gym = {"type": "gym", "server_cmd": CMD.removeprefix("gym://cmd:"), "port": free_port()}
    config = nel.config(
        f"{out}.yaml",
        services={"model": api(server.url), "gym": gym},
        benchmarks=[
            {"name": name, "solver": solver, "max_system_retries": tries, "skip_failed": True}
        ],
        output={"dir": out},
    )
    done = nel("eval", "run", config, code=code)
    return server, done.stdout + done.stderr


def test_a_gym_agent_answers_and_we_verify(nel: Nel, serve: Serve, sums: Sums) -> None:
    nel.env["AGENTS"] = "math other"
    server, _ = delegate(nel, serve, "out", sums(4), gym_agent="math_agent")
    got = rows(folder(nel, "out"))
    assert [row["reward"] for row in got] == [1.0] * 4 and not server.requests
    assert [row["tokens"] for row in got] == [9] * 4
    (document,) = json.loads(
        (folder(nel, "out") / "trajectories.jsonl").read_text().splitlines()[0]
    )["trajectory"]
    validate_trajectory([document])
    assert [step["source"] for step in document["steps"]] == ["user", "agent", "agent"]
    assert document["steps"][1]["observation"]["results"][0]["content"] == "3"


def test_the_gyms_reward_is_trusted_on_request(nel: Nel, serve: Serve, sums: Sums) -> None:
    _, said = delegate(nel, serve, "out", sums(2), trust_reward=True)
    assert "scored by the Gym agent, not by nel" in " ".join(said.split())
    got = rows(folder(nel, "out"))
    assert [row["reward"] for row in got] == [0.25, 0.25] and got[0]["scoring_details"]["gym"][
        "steps"
    ] == 2
    assert {row["scoring_details"]["scored_by"] for row in got} == {"the Gym agent"}
    (bundle,) = folder(nel, "out").glob("eval-*.json")
    benchmark = json.loads(bundle.read_text())["benchmark"]
    assert benchmark["scored_by"] == {"the Gym agent": 2}
    assert "scored by the Gym agent, not by nel: 2 of 2 rows" in benchmark["notes"]
    nel.env["FAULT"] = "no_reward"
    delegate(nel, serve, "none", sums(2), trust_reward=True, code=3)
    assert [row["reward"] for row in rows(folder(nel, "none"))] == [None, None]


def test_an_agent_that_is_told_of_the_model_is_counted_at_our_door(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    nel.env["AGENTS"] = "one"
    server, _ = delegate(nel, serve, "out", sums(4), gym_agent="openhands")
    got = rows(folder(nel, "out"))
    assert [row["reward"] for row in got] == [1.0, 0.0, 1.0, 0.0] and len(server.requests) == 4
    assert all(row["tokens"] and row["tokens"] != 9 for row in got)


def test_a_gym_server_of_ours_that_crashed_is_waited_for(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    nel.env |= {"FAULT": "crash", "AGENTS": "one"}
    _, said = delegate(nel, serve, "out", sums(4), tries=2)
    assert "Starting gym again (1 of 1)" in said
    assert [row["reward"] for row in rows(folder(nel, "out"))] == [1.0] * 4


def test_which_agent_is_said(nel: Nel, serve: Serve, sums: Sums) -> None:
    nel.env["AGENTS"] = "math other"
    _, said = delegate(nel, serve, "odd", sums(2), gym_agent="odd", code=2)
    assert "no agent 'odd'" in said and "math_agent, other_agent" in said
    _, said = delegate(nel, serve, "several", sums(2), code=2)
    assert "several agents" in said


def test_a_served_benchmark_judges_for_another(nel: Nel, serve: Serve, sums: Sums) -> None:
    server, file = serve(doubles), sums(4)
    served = {"type": "gym", "benchmark": file, "port": free_port()}
    foreign = {"type": "gym", "server_cmd": CMD.removeprefix("gym://cmd:"), "port": free_port()}
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url), "served": served, "foreign": foreign},
        benchmarks=[bench(file, id=name, verifier=name) for name in ("served", "foreign")],
        output={"dir": "out"},
    )
    nel("eval", "run", config)
    for name in ("served", "foreign"):
        assert [row["reward"] for row in rows(nel.folder / "out" / name)] == [1.0, 0.0, 1.0, 0.0]
    assert all(
        row["scoring_details"]["method"] == "gym" for row in rows(nel.folder / "out" / "foreign")
    )
    config = nel.config(
        "d.yaml", services={"model": api(server.url)}, benchmarks=[bench(file, verifier="model")]
    )
    assert "a service of type gym" in nel("config", "check", config, code=1).stderr
