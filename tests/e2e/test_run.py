"""``nel eval run`` as a user runs it."""

import json
import re
import signal
import time
from pathlib import Path

import pytest
from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Fault, Say

SECRET = "sk-very-secret-0123456789"


def test_quick_mode(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    done = nel(
        "eval",
        "run",
        "--bench",
        sums(8),
        "--model-url",
        server.url,
        "--model-id",
        "m",
        "--repeats",
        "3",
    )
    assert "sums" in done.stdout and "100.0%" in done.stdout
    assert len(rows(nel.folder / "eval_results" / "sums")) == 24
    report = nel("eval", "report", "./eval_results/", "-f", "markdown", "-o", "report.md")
    assert "sums" in (nel.folder / "report.md").read_text(), report.stdout


def test_a_config_and_its_resume(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(8))])
    nel("eval", "run", config)
    before = server.count
    done = nel("eval", "run", config, "--resume")
    assert "8 reused" in done.stderr
    assert server.count == before


def test_solver_settings_win_and_system_prompt_reaches_the_model(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    solver = {
        "type": "simple",
        "service": "model",
        "system_prompt": "Be brief.",
        "generation": {"temperature": 0.9, "max_tokens": 99},
    }
    service = api(server.url, generation={"temperature": 0.1, "max_tokens": 11, "top_p": 0.5})
    config = nel.config(
        "c.yaml", services={"model": service}, benchmarks=[{"name": sums(1), "solver": solver}]
    )
    nel("eval", "run", config)
    body = server.requests[0].body
    assert (body["temperature"], body["max_tokens"], body["top_p"]) == (0.9, 99, 0.5)
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_one_benchmark_that_fails_does_not_stop_the_others(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    broken = api("http://127.0.0.1:9", retry={"max_retries": 0})
    config = nel.config(
        "c.yaml",
        services={
            "model": api(server.url),
            "dead": broken,
            "locked": api(serve("6", api_key=SECRET).url),
        },
        benchmarks=[
            bench("sums.py", id="locked", solver={"type": "simple", "service": "locked"}),
            {
                "name": sums(4),
                "id": "dead",
                "solver": {"type": "simple", "service": "dead"},
                "max_system_retries": 1,
            },
            bench("sums.py"),
            bench("sums.py"),
        ],
    )
    done = nel("eval", "run", config, code=2)
    assert "401" in done.stderr
    assert len(rows(nel.folder / "eval_results" / "sums-2")) == 4
    assert {row["status"] for row in rows(nel.folder / "eval_results" / "dead")} == {"failed"}
    state = json.loads((nel.folder / "eval_results" / "checkpoint.json").read_text())
    assert state["completed_benchmarks"].keys() == {"sums", "sums-2"}


def test_a_run_under_its_coverage_floor_exits_3(nel: Nel, serve: Serve, sums: Sums) -> None:
    half = re.compile("[23] [+]")
    server = serve(
        lambda seen: Say(fault=Fault.MALFORMED_JSON) if half.search(str(seen.body)) else Say("6")
    )
    broken = api(server.url, retry={"max_retries": 0})
    config = nel.config(
        "c.yaml", services={"model": broken}, benchmarks=[bench(sums(4), max_system_retries=1)]
    )
    done = nel("eval", "run", config, code=3)
    assert "INVALID" in done.stdout and "coverage 50.0%" in done.stdout


def test_a_wrong_key_stops_within_seconds(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6", api_key=SECRET)
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url, api_key="wrong-key-99999")},
        benchmarks=[bench(sums(2000))],
    )
    started = time.monotonic()
    done = nel("eval", "run", config, code=2)
    assert time.monotonic() - started < 10
    assert server.count < 100
    assert "401" in done.stderr and "fix:" in done.stderr
    assert "wrong-key-99999" not in done.stderr + done.stdout


def test_no_key_in_any_file_log_or_process_list(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("6", delay=0.2), api_key=SECRET)
    words = [
        "--bench",
        sums(30),
        "--model-url",
        server.url,
        "--model-id",
        "m",
        "--api-key",
        SECRET,
        "-v",
    ]
    process = nel.start("eval", "run", *words)
    seen = False
    while process.poll() is None:
        cmdline = Path(f"/proc/{process.pid}/cmdline")
        words_now = cmdline.read_bytes() if cmdline.exists() else b""
        if b"--api-key\0***" in words_now:
            seen = True
            assert SECRET.encode() not in words_now
        time.sleep(0.02)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert seen
    assert SECRET not in out + err
    for path in nel.folder.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    nel.env["NEMO_API_KEY"] = SECRET
    nel("eval", "resume", "-o", "eval_results")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_closes_cleanly_and_loses_nothing(
    nel: Nel, serve: Serve, sums: Sums, number: signal.Signals
) -> None:
    server = serve(Say("6", delay=0.1))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(300), max_concurrent=8)],
    )
    process = nel.start("eval", "run", config)
    while server.count < 30:
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=90)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "--resume" in out
    assert not (nel.folder / "eval_results" / "nel.pid").exists()
    asked = server.count
    assert len(rows(nel.folder / "eval_results" / "sums")) == asked
    nel("eval", "run", config, "--resume")
    assert server.count == 300


def test_a_second_signal_is_immediate(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say("6", delay=30))
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(20))])
    process = nel.start("eval", "run", config)
    while server.count < 8:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    started = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert time.monotonic() - started < 3
    assert process.returncode == 130


def test_background_status_logs_stop_resume(nel: Nel, serve: Serve, sums: Sums) -> None:
    pace = [0.5]
    server = serve(lambda seen: Say("6", delay=pace[0]))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(200), max_concurrent=4)],
        output={"progress_interval": 0.2},
    )
    nel("eval", "run", config, "--background")
    while server.count < 20:
        time.sleep(0.05)
    state = json.loads(nel("eval", "status", "--json").stdout)
    assert state["running"] and state["benchmarks"][0]["scored"] > 0
    assert state["run_id"] in nel("eval", "runs").stdout
    assert " running " in nel("eval", "runs").stdout
    nel("eval", "stop")
    pace[0] = 0.0
    assert json.loads(nel("eval", "status", "--json").stdout)["running"] is False
    assert "steps/s" in nel("eval", "logs", "-n", "50").stdout
    done = nel("eval", "resume", "-r", state["run_id"])
    assert "reused" in done.stderr
    assert len(rows(nel.folder / "eval_results" / "sums")) == 200
    assert server.count == 200
    nel("eval", "clean", "--all", "-y")
    assert nel("eval", "runs").stdout == "No tracked runs.\n"


def test_json_lines_for_machines(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    done = nel("eval", "run", "-b", sums(8), "--model-url", server.url, "--model-id", "m", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "finished", "result"]
    assert events[-1]["benchmarks"][0]["status"] == "VALID"


def test_dry_run_asks_and_writes_nothing(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(8), repeats=3)]
    )
    done = nel("eval", "run", config, "--dry-run")
    assert "8 problems x 3 = 24 steps" in done.stdout
    assert server.count == 0
    assert not (nel.folder / "eval_results").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval", "run"], "give a config file or --bench"),
        (["eval", "run", "none.yaml"], "none.yaml"),
        (["eval", "run", "--bench", "gsm8k"], "--model-url"),
        (["eval", "run", "c.yaml", "--repeats", "3"], "-O benchmarks.0.repeats=N"),
        (["eval", "run", "c.yaml", "--submit"], "--background"),
        (["eval", "run", "c.yaml", "--shard", "4/4"], "does not exist"),
        (
            ["eval", "run", "-b", "gsmk8", "--model-url", "http://127.0.0.1:9", "--model-id", "m"],
            "gsm8k",
        ),
        (["eval", "status"], "no run was started"),
        (["eval", "stop", "-r", "nonsense"], "nel eval runs"),
        (["eval", "merge", "."], "--shard I/N"),
        (["eval", "clean"], "--older-than"),
        (["evil"], "No such command"),
    ],
)
def test_errors_say_the_fix(nel: Nel, sums: Sums, words: list[str], said: str) -> None:
    nel.config("c.yaml", services={"model": api("http://127.0.0.1:9")}, benchmarks=[bench(sums(2))])
    done = nel(*words, code=None)
    assert done.returncode in (1, 2)
    assert said in done.stderr
