"""Budgets: the run ends within one request's cost of its limit, says so, and goes on with a larger one."""

import json

import pytest
from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Say


def test_a_budget_in_usd(nel: Nel, serve: Serve, sums: Sums) -> None:
    usage = {"prompt_tokens": 500, "completion_tokens": 500, "total_tokens": 1000}
    server = serve(Say("6", usage=usage, delay=0.01))
    # One request costs 0.001 USD.
    service = api(server.url, price={"input": 1.0, "output": 1.0})
    one = bench(sums(300), max_concurrent=16)
    config = nel.config(
        "c.yaml", services={"model": service}, benchmarks=[one], budget={"usd": 0.10}
    )
    done = nel("eval", "run", config, code=4)
    assert done.stdout.split("\n")[1].startswith("DEGRADED") and "stopped by budget" in done.stdout
    first = rows(nel.folder / "eval_results" / "sums")
    spent = sum(row["cost_usd"] for row in first)
    assert 0.099 <= round(spent, 6) <= 0.101
    assert server.count == len(first)
    (path,) = (nel.folder / "eval_results" / "sums").glob("eval-*.json")
    bundle = json.loads(path.read_text())
    assert bundle["stopped"]["kind"] == "budget"
    assert bundle["validity"]["status"] == "DEGRADED"
    nel("eval", "run", config, "--resume", code=4)
    assert server.count <= 101
    nel("eval", "run", config, "--resume", "-O", "budget.usd=1.0")
    assert len(rows(nel.folder / "eval_results" / "sums")) == 300
    assert server.count == 300


def test_a_budget_in_requests_for_one_benchmark(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    benches = [bench(sums(50), budget={"requests": 10}), bench("sums.py")]
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=benches)
    nel("eval", "run", config, code=4)
    assert len(rows(nel.folder / "eval_results" / "sums")) == 10
    assert len(rows(nel.folder / "eval_results" / "sums-2")) == 50


def test_a_limit_on_the_time_of_a_step_is_the_tasks_own(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("6", delay=3))
    one = bench(sums(4), step_limits={"seconds": 0.2})
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[one])
    nel("eval", "run", config)
    assert {row["label"] for row in rows(nel.folder / "eval_results" / "sums")} == {"budget"}


@pytest.mark.needs("bwrap")
def test_an_agent_whose_time_is_up_is_verified_as_it_stands(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    slow = {"id": "c0", "name": "bash", "arguments": {"command": "sleep 60"}}
    server = serve(Say("2", tool_calls=[slow], finish_reason="tool_calls"))
    solver = {"type": "tool_calling", "service": "model", "sandbox_tools": True}
    one = bench(sums(2), solver=solver, sandbox={"type": "local"}, step_limits={"seconds": 2})
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[one])
    nel("eval", "run", config)
    found = rows(nel.folder / "eval_results" / "sums")
    assert [(row["label"], row["reward"], row["model_response"]) for row in found] == [
        ("budget", 0.0, "2"),
        ("budget", 1.0, "2"),
    ]
    trails = (nel.folder / "eval_results" / "sums" / "trajectories.jsonl").read_text().splitlines()
    assert len(trails) == 2
    assert all("2 s are used up" in trail and "sleep 60" in trail for trail in trails)
    assert server.count == 2


def test_traffic_is_kept_as_asked(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6", api_key="sk-secret-in-traffic")
    for keep, fields in (("metadata", False), ("bodies", True)):
        config = nel.config(
            "c.yaml",
            services={"model": api(server.url, api_key="sk-secret-in-traffic")},
            benchmarks=[bench(sums(5))],
            output={"traffic": keep, "dir": keep},
        )
        nel("eval", "run", config)
        text = (nel.folder / keep / "sums" / "model_traffic.jsonl").read_text()
        records = [json.loads(line) for line in text.splitlines()]
        assert len(records) == 5
        assert {record["status_code"] for record in records} == {200}
        assert all(("message_content" in record) is fields for record in records)
        assert "sk-secret-in-traffic" not in text
