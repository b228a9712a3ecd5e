"""Servers that are not there, die half-way or fail for a while: the run stops and says why, or pauses."""

import socket
import threading
import time

from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Fault, Say, ScriptedServer


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write(nel: Nel, name: str, url: str, **service: object) -> str:
    return nel.config(
        "c.yaml",
        services={"model": api(url, **service)},
        benchmarks=[bench(name, max_concurrent=16)],
    )


def test_a_closed_port_stops_the_run_in_seconds(nel: Nel, sums: Sums) -> None:
    port = closed_port()
    config = write(nel, sums(2000), f"http://127.0.0.1:{port}/v1")
    started = time.monotonic()
    done = nel("eval", "run", config, code=2, timeout=60)
    assert time.monotonic() - started < 20
    assert f"Connection refused (127.0.0.1:{port})" in done.stderr
    assert "fix: make sure that a server answers at" in done.stderr and "--resume" in done.stderr
    assert not (nel.folder / "eval_results" / "sums" / "results.jsonl").exists()
    nel.env["COLUMNS"] = "80"
    again = nel("eval", "run", config, "--resume", code=2, timeout=60)
    status = nel("eval", "status")
    assert "Connection refused" in status.stdout
    for line in (*again.stderr.splitlines(), *status.stdout.splitlines()):
        assert len(line) <= 80 or " " not in line.strip(), f"wider than the terminal: {line}"


def test_a_wrong_path_stops_the_run_at_once(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(Say(status=404, message="Not Found"))
    config = write(nel, sums(2000), f"{server.url}/typo/chat/completions")
    done = nel("eval", "run", config, code=2, timeout=60)
    assert "HTTP 404: Not Found" in done.stderr
    assert "/typo" in done.stderr.partition("fix: ")[2]
    assert server.count <= 16


def test_no_success_after_a_handful_of_bad_answers_stops_the_run(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    """A page with status 200 that is no JSON is no answer of a model: the URL is wrong."""
    server = serve(Say(fault=Fault.MALFORMED_JSON))
    config = write(nel, sums(2000), server.url, retry={"max_retries": 2, "base_delay": 0.01})
    done = nel("eval", "run", config, code=2, timeout=60)
    assert "the first requests were all without an answer" in done.stderr
    assert "without JSON" in done.stderr
    assert server.count < 200


def test_a_server_that_dies_stops_the_run_and_burns_no_rows(nel: Nel, sums: Sums) -> None:
    config_port = closed_port()
    with ScriptedServer(Say("6", delay=0.05), port=config_port) as server:
        service = {"timeouts": {"outage": 4}, "retry": {"max_retries": 1, "base_delay": 0.05}}
        config = write(nel, sums(2000), server.url, **service)
        running = nel.start("eval", "run", config)
        while server.count < 100:
            time.sleep(0.02)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 2, err
    assert "model: the server is gone" in err and "timeouts.outage: 4 s" in err
    assert {row["status"] for row in rows(nel.folder / "eval_results" / "sums")} == {"scored"}
    with ScriptedServer(Say("6"), port=config_port):
        nel("eval", "run", config, "--resume")
    assert len(rows(nel.folder / "eval_results" / "sums")) == 2000


def test_an_outage_is_waited_out(nel: Nel, serve: Serve, sums: Sums) -> None:
    """500 for some seconds, from the first request on and with fewer retries than that takes."""
    first: list[float] = []

    def say(_: object) -> Say:
        first.append(time.monotonic())
        return (
            Say("6") if time.monotonic() > first[0] + 7 else Say(status=500, message="overloaded")
        )

    server = serve(say)
    sums(60)
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url, retry={"max_retries": 3, "base_delay": 0.5})},
        benchmarks=[bench("sums.py", max_concurrent=16, timeout=2)],
        output={"progress_interval": 0.2},
    )
    done = nel("eval", "run", config, timeout=90)
    found = rows(nel.folder / "eval_results" / "sums")
    assert len(found) == 60 and {row["status"] for row in found} == {"scored"}
    assert "paused, next try in" in done.stderr and "gives up in" in done.stderr
    assert "retrying: " in done.stderr and "HTTP 500" in done.stderr


def test_ctrl_c_ends_a_pause(nel: Nel, sums: Sums) -> None:
    port = closed_port()
    with ScriptedServer(Say("6", delay=0.05), port=port) as server:
        config = write(nel, sums(2000), server.url)
        running = nel.start("eval", "run", config)
        while server.count < 50:
            time.sleep(0.02)
    threading.Event().wait(3)
    asked = time.monotonic()
    running.send_signal(2)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert time.monotonic() - asked < 25
