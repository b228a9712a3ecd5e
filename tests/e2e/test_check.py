"""``nel check`` and ``nel report`` on runs that went wrong in reality, each in its own way."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import Say, Seen


def _by(service: str, key: str, **more: Any) -> dict[str, Any]:
    return bench("sums.py", id=key, **more) | {"solver": {"type": "simple", "service": service}}


def _number(seen: Seen) -> int:
    return int(seen.prompt.split()[3])


def test_every_class_from_one_real_run(nel: Nel, serve: Serve, sums: Sums) -> None:
    sums(20)

    def right(seen: Seen) -> str:
        return str(2 * _number(seen))

    def long_prompts(seen: Seen) -> Say | str:
        return (
            Say(status=400, message="maximum context length is 8 tokens")
            if _number(seen) % 2
            else right(seen)
        )

    def rejects(seen: Seen) -> Say | str:
        return (
            Say(status=400, message="no \x1b[31msuch option")
            if _number(seen) % 5 == 0
            else right(seen)
        )

    scripts: dict[str, Any] = {
        "right": right,
        "locked": Say(status=401, message="bad key"),
        "short": long_prompts,
        "picky": rejects,
        "thinker": lambda seen: f"<think>{right(seen)}",
        "judge": lambda _: "I would rather not say",
    }
    services = {
        name: api(serve(script).url, retry={"max_retries": 0}) for name, script in scripts.items()
    }
    judged = {
        "include_defaults": False,
        "metrics": [{"type": "judge", "name": "j", "service": "judge"}],
    }
    config = nel.config(
        "c.yaml",
        services=services,
        benchmarks=[
            _by("right", "good"),
            _by("locked", "locked"),
            _by("short", "context"),
            _by("picky", "picky", max_concurrent=1),
            _by("thinker", "thinker"),
            _by("right", "judged", scoring=judged, max_problems=3),
        ],
        output={"dir": "out"},
    )
    ran = nel("eval", "run", config, code=2)
    document = json.loads(nel("check", "out", "--json", code=3).stdout)
    found = {
        check["benchmark"]: (check["status"], check["failure_class"])
        for check in document["benchmarks"]
    }
    assert found == {
        "good": ("VALID", None),
        "locked": ("INVALID", "USER_CONFIG_ERROR"),
        "context": ("DEGRADED", "UNKNOWN"),
        "picky": ("INVALID", "UNKNOWN"),
        "thinker": ("DEGRADED", "UNKNOWN"),
        "judged": ("INVALID", "EVAL_JUDGE_FAILED"),
    }
    # One status: that of the terminal and of the bundle.
    said = {words[1]: words[0] for line in ran.stdout.splitlines()[1:7] if (words := line.split())}
    assert said == {name: status for name, (status, _) in found.items()}
    for path in nel.folder.glob("out/*/eval-*.json"):
        assert json.loads(path.read_text())["validity"]["status"] == found[path.parent.name][0]
    assert "picky: 4 failed with request_rejected, such as: picky: HTTP 400: no" in ran.stdout
    assert (
        "    4 failed with request_rejected, such as:" in nel("eval", "status", "-o", "out").stdout
    )
    text = nel("check", "out", code=3).stdout
    assert "\x1b" not in text
    assert "such option" in text
    assert nel("check", "out/good").stdout.startswith("VALID  good: 20 problems")


def test_a_server_that_was_often_busy_is_noted(nel: Nel, serve: Serve, sums: Sums) -> None:
    refused: set[str] = set()

    def busy(seen: Seen) -> Say | str:
        if _number(seen) % 2 and seen.prompt not in refused:
            refused.add(seen.prompt)
            return Say(status=503, message="busy")
        return str(2 * _number(seen))

    config = nel.config(
        "c.yaml",
        services={"model": api(serve(busy).url, retry={"max_retries": 0})},
        benchmarks=[bench(sums(10), max_system_retries=3)],
        output={"dir": "out", "traffic": "metadata"},
    )
    nel("eval", "run", config)
    (check,) = json.loads(nel("check", "out", "--json").stdout)["benchmarks"]
    assert [finding["message"] for finding in check["findings"]] == [
        "50.0% of the steps were tried more than once"
    ]
    report = json.loads((nel.folder / "out" / "trajectories_report.json").read_text())
    (entry,) = report["benchmarks"]
    wire = entry["wire_calls"]
    assert (wire["total"], wire["total_all_sessions"], wire["steps_with_retry_sessions"]) == (
        10,
        15,
        5,
    )
    assert entry["tokens_stats"]["all_sources_match"] is True
    assert (
        json.loads((nel.folder / "out" / "sums" / "runtime_stats.json").read_text())[
            "total_retries"
        ]
        == 5
    )


def test_a_run_that_was_killed_is_not_finished(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("2", delay=0.3))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(200), max_concurrent=1), bench("sums.py", id="later")],
        output={"dir": "out"},
    )
    process = nel.start("eval", "run", config)
    deadline = time.monotonic() + 90
    while server.count < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    while_running = nel("check", "out", code=3).stdout
    process.send_signal(signal.SIGKILL)
    process.communicate()
    document = json.loads(nel("check", "out", "--json", code=3).stdout)
    assert {check["benchmark"]: check["failure_class"] for check in document["benchmarks"]} == {
        "sums": "INFRA_TRANSIENT",
        "later": "INFRA_TRANSIENT",
    }
    assert "still running" in while_running
