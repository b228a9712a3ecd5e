"""Replicas of a service: behind HAProxy, the real one, with one killed midway; and the end of them all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from nel_support import Nel, Sums, bench, free_ports, marked, rows

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.servers.launch import Launch
from nemo_evaluator.services.haproxy import haproxy_config, haproxy_launch

SERVER = Path(__file__).with_name("answering_server.py")


@pytest.fixture
def with_vllm(nel: Nel, tmp_path: Path) -> Path:
    """A ``vllm`` package that ``nel`` finds; returns the folder of its notes."""
    module = tmp_path / "packages" / "vllm" / "entrypoints" / "cli" / "main.py"
    module.parent.mkdir(parents=True)
    shutil.copy(SERVER, module)
    notes = tmp_path / "notes"
    notes.mkdir()
    nel.env |= {"PYTHONPATH": str(tmp_path / "packages"), "NOTES": str(notes)}
    return notes


def notes_of(folder: Path) -> list[dict[str, Any]]:
    """What the servers noted, in the order of their ports."""
    return [json.loads(note.read_text() or "{}") for note in sorted(folder.glob("*.json"))]


def asked(folder: Path) -> list[int]:
    return [note.get("asked", 0) for note in notes_of(folder)]


def until_asked(folder: Path, run: subprocess.Popen[str], count: int) -> None:
    deadline = time.monotonic() + 270
    while sum(asked(folder)) < count and run.poll() is None:
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.05)


@pytest.mark.needs("haproxy")
def test_the_config_is_one_that_haproxy_takes(tmp_path: Path) -> None:
    servers = [
        Launch(argv=["serve"], port=8000 + number, host=f"127.0.0.{number + 2}")
        for number in range(3)
    ]
    file = tmp_path / "haproxy.cfg"
    file.write_text(haproxy_config(servers, free_ports(1)))
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, timeout=60
    )
    assert haproxy_launch(servers, 5009, file).url == "http://127.0.0.1:5009/v1", (
        "it runs beside us"
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr + done.stdout, done.stderr


# Health paths and addresses that would mean something else in the file of HAProxy.
HOSTILE = (
    *("/a b", "/a\n    server evil 1.2.3.4:80", "/a#x", '/a"', "/a'", "/a\\", "/$HOME", "/${PATH}"),
    *(
        "/%[env(PATH)]",
        "/a{x}",
        "/a`id`",
        "/a\t",
        "/a;b",
        "/a,b",
        "/(x)",
        "//x",
        "/!x",
        "/a?x=1&y=2",
    ),
)
HOSTS = (
    *(
        "$HOST",
        "${PATH}",
        "a b",
        "unix@/tmp/x",
        "abns@x",
        "fd@3",
        "ipv4@1.2.3.4",
        "a#",
        "1.2.3.4,5",
    ),
    *("127.0.0.1:1 backup", "a\n", "sockpair@1", "[::1]", "127.0.0.1", "-x"),
)


@pytest.mark.needs("haproxy")
@pytest.mark.parametrize(
    "servers",
    [
        *([Launch(argv=["serve"], port=8000, health_paths=(path,))] for path in HOSTILE),
        *([Launch(argv=["serve"], port=8000, host=host)] for host in HOSTS),
    ],
    ids=lambda servers: f"{servers[0].host} {servers[0].health_paths[0]}",
)
def test_haproxy_reads_every_value_as_one_word(servers: list[Launch], tmp_path: Path) -> None:
    try:
        text = haproxy_config(servers, free_ports(1))
    except UsageError:
        return
    file = tmp_path / "haproxy.cfg"
    file.write_text(text)
    done = subprocess.run(
        ["haproxy", "-c", "-f", str(file)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "WARNING" not in done.stderr + done.stdout, done.stderr
    words = [line.split() for line in text.splitlines()]
    assert [line[2] for line in words if line[:1] == ["server"]] == [f"{servers[0].host}:8000"]
    assert ["option", "httpchk", "GET", servers[0].health_paths[0]] in words


@pytest.mark.parametrize("blow", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_takes_all_replicas_with_it(
    blow: signal.Signals, with_vllm: Path, nel: Nel, sums: Sums, tmp_path: Path
) -> None:
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(3),
    }
    served |= {"replicas": 3, "stop_grace": 2}
    problems = bench(sums(500), max_concurrent=4)
    run = nel.start(
        "eval", "run", nel.config("c.json", services={"model": served}, benchmarks=[problems])
    )
    until_asked(with_vllm, run, 12)
    assert len(marked(str(with_vllm))) > 6, "a server and its guard, three times, and the run"
    os.kill(run.pid, blow)
    run.communicate(timeout=60)
    deadline = time.monotonic() + 90
    while left := marked(str(with_vllm)):
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "form", ["process", pytest.param("docker", marks=pytest.mark.needs("docker"))]
)
def test_a_server_gets_the_same_words_in_every_form(
    form: str, with_vllm: Path, nel: Nel, sums: Sums, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "vllm").write_text('#!/bin/sh\nexec python3 "$(dirname "$0")/server.py" "$@"\n')
    (tools / "vllm").chmod(0o755)
    shutil.copy(SERVER, tools / "server.py")
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(1),
    }
    served |= {
        "reasoning_parser": "qwen3",
        "tool_parser": "hermes",
        "extra_args": ["--seed", "a b"],
        "stop_grace": 1,
    }
    served |= {"setup_commands": ["export EXPORTED=set"], "pre_cmd": 'EXPORTED="$EXPORTED up"'}
    if form == "docker":
        mounts = [f"{tools}:/tools:ro", f"{with_vllm}:/notes"]
        served |= {
            "image": "nel-test/python:bookworm",
            "container_mounts": mounts,
            "extra_env": {"NOTES": "/notes"},
        }
        served["pre_cmd"] += "; export PATH=/tools:$PATH"
    nel(
        "eval", "run", nel.config("c.json", services={"model": served}, benchmarks=[bench(sums(3))])
    )
    (note,) = notes_of(with_vllm)
    assert note["env"]["EXPORTED"] == "set up"
    words = note["argv"][note["argv"].index("serve") :] if form == "process" else note["argv"]
    listening = [
        "--host",
        "127.0.0.1" if form == "process" else "0.0.0.0",
        "--port",
        str(served["port"]),
    ]
    parsers = [
        "--reasoning-parser",
        "qwen3",
        "--tool-call-parser",
        "hermes",
        "--enable-auto-tool-choice",
    ]
    own = ["serve", "org/m", *listening, "--served-model-name", "model", *parsers, "--seed", "a b"]
    assert words[: len(own)] == own


def test_benchmarks_side_by_side_share_one_served_model(
    with_vllm: Path, nel: Nel, sums: Sums, tmp_path: Path
) -> None:
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(1),
    }
    served["max_concurrent"] = 2
    both = [bench(sums(40), id=name, max_concurrent=1) for name in ("first", "second")]
    parts = {"services": {"model": served}, "benchmarks": both, "suite": {"parallel_benchmarks": 2}}
    done = nel("eval", "run", nel.config("c.json", **parts, output={"dir": "o"}))
    assert done.stderr.count("Starting service: model") == done.stderr.count("model ready at") == 1
    assert all(len(rows(tmp_path / "o" / name)) == 40 for name in ("first", "second"))
    (note,) = notes_of(with_vllm)
    assert note["most"] == 2, "two questions at once: one of each benchmark"
    assert note["asked"] == 81, "eighty, and the token before them"


def test_ctrl_c_ends_benchmarks_side_by_side_and_they_resume(
    with_vllm: Path, nel: Nel, sums: Sums, tmp_path: Path
) -> None:
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(1),
    }
    both = [bench(sums(60), id=name, max_concurrent=1) for name in ("first", "second")]
    parts = {
        "services": {"model": served | {"max_concurrent": 2}},
        "benchmarks": both,
        "output": {"dir": "o"},
    }
    config = nel.config("c.json", **parts, suite={"parallel_benchmarks": 2})
    run = nel.start("eval", "run", config)
    until_asked(with_vllm, run, 20)
    os.kill(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130 and all(
        f"{name}: stopped: interrupted" in err for name in ("first", "second")
    ), err
    before = asked(with_vllm)[0]
    nel("eval", "run", config, "--resume")
    assert all(len(rows(tmp_path / "o" / name)) == 60 for name in ("first", "second"))
    assert before + asked(with_vllm)[0] == 120 + 2, "nothing was asked twice"


@pytest.mark.needs("haproxy")
def test_a_run_through_haproxy_outlives_one_of_its_servers(
    with_vllm: Path, nel: Nel, sums: Sums, tmp_path: Path
) -> None:
    served = {
        "type": "vllm",
        "model": "org/m",
        "protocol": "chat_completions",
        "gpus": 0,
        "port": free_ports(2),
    }
    served |= {
        "replicas": 2,
        "restarts": 0,
        "balancer": "haproxy",
        "balancer_port": free_ports(1),
        "stop_grace": 1,
    }
    run = nel.start(
        *("eval", "run"),
        nel.config(
            "c.json",
            services={"model": served},
            benchmarks=[bench(sums(80), max_concurrent=4)],
            output={"dir": "o"},
        ),
    )
    until_asked(with_vllm, run, 25)
    first, second = asked(with_vllm)
    assert first > 5 and second > 5, "both servers are used"
    os.kill(notes_of(with_vllm)[0]["pid"], signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert f"model-haproxy ready at http://127.0.0.1:{served['balancer_port']}/v1" in err
    assert "'model-0' exited with code 137" in out + err
    assert len(rows(tmp_path / "o" / "sums")) == 80 and asked(with_vllm)[1] > second + 20
    assert marked(str(with_vllm)) == []
