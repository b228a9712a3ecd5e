"""A key on the command line is in no process list: not of the command, not of its children, not of a detached run."""

from __future__ import annotations

import os
import time

import pytest
from nel_support import Nel, Serve, Sums, api, bench, command_lines_with

from nemo_evaluator.testing import Say

# Its own in every process: the list of processes is the whole machine's.
KEY = f"sk-on-the-command-line-{os.getpid():010d}"


@pytest.mark.parametrize("how", ["quick", "override", "validate", "background"])
def test_a_key_is_in_no_process_list(nel: Nel, serve: Serve, sums: Sums, how: str) -> None:
    server = serve(Say("4", delay=1.0), api_key=KEY)
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(3))])
    quick = [
        "-b" if how == "validate" else "--bench",
        "sums.py",
        "--model-url",
        server.url,
        "--model-id",
        "m",
    ]
    words = {
        "quick": ["eval", "run", *quick, "--api-key", KEY],
        "override": ["eval", "run", config, "-O", f"services.model.api_key={KEY}"],
        "validate": ["validate", *quick, f"--api-key={KEY}"],
        "background": [
            "eval",
            "run",
            config,
            "-O",
            f"services.model.api_key={KEY}",
            "--background",
        ],
    }[how]
    process = nel.start(*words)
    deadline = time.monotonic() + 180
    while not server.count and time.monotonic() < deadline:
        time.sleep(0.02)
    lists = command_lines_with(KEY)
    out, err = process.communicate(timeout=60)
    if how == "background":
        while (nel.folder / "eval_results" / "nel.pid").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    assert server.count, err
    assert {seen.headers["authorization"] for seen in server.requests} == {f"Bearer {KEY}"}
    assert lists == []
    assert KEY not in out + err
    files = [file for file in nel.folder.rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []
