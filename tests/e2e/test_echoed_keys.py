"""A key that a server says back reaches no file, no report, no terminal."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import Say

KEY = 'sk-echo/"quoted"-0123456789'
FORMS = (
    KEY,
    json.dumps(KEY)[1:-1],
    base64.b64encode(KEY.encode()).decode(),
    "sk-echo",
    "0123456789",
)
FAULTY = {
    "retry": {"max_retries": 0},
    "timeouts": {"connect": 5, "first_byte": 5, "idle": 5, "total": 10},
}
ECHOES = [
    Say(f"your key is {KEY}"),
    Say(json.dumps({"answer": KEY})),
    Say(f"{FORMS[2]}!"),
    Say("4", reasoning=f"hm, {KEY}"),
    Say("4", finish_reason=f"{KEY}"),
    Say("4", tool_calls=[{"name": "f", "arguments": json.dumps({"k": KEY})}]),
    Say("4", usage={"prompt_tokens": 1, "completion_tokens": 1, KEY: 3}),
    Say("4", headers={"x-request-id": KEY}),
    Say(status=400, message=f"bad request with {KEY}"),
    Say(status=500, body={"detail": [{"msg": KEY}]}),
    Say(status=200, body=f"<html>{KEY}</html>"),
    Say(status=200, body={"oops": KEY}),
]
REFUSED = [Say(status=401, message=f"{KEY} is not a valid key")]


def _leaks(folder: Path) -> list[str]:
    files = (
        file
        for file in folder.rglob("*")
        if file.is_file() and file.name not in ("c.yaml", "sums.py")
    )
    return [
        f"{file.name}: {form}"
        for file in files
        for form in FORMS
        if form.encode() in file.read_bytes()
    ]


@pytest.mark.parametrize("script", [ECHOES, REFUSED])
def test_an_echoed_key_stays_nowhere(nel: Nel, serve: Serve, sums: Sums, script: list[Say]) -> None:
    server = serve(script)
    nel.env |= {"MODEL_KEY": KEY, "XDG_CACHE_HOME": str(nel.folder / "cache")}
    dump = {"name": "http_pairs_dump", "config": {"dump_path": str(nel.folder / "pairs.json")}}
    stages = [dump, {"name": "logging"}, {"name": "caching"}]
    service = api(server.url, api_key="${MODEL_KEY}", interceptors=stages, **FAULTY)
    output = {"traffic": "bodies", "report": ["markdown", "html", "csv", "json"]}
    one = bench(sums(len(script)))
    done = nel(
        "eval",
        "run",
        nel.config("c.yaml", services={"model": service}, benchmarks=[one], output=output),
        "-v",
        code=None,
    )
    assert server.count >= len(script)
    assert _leaks(nel.folder) == []
    shown = [done.stdout + done.stderr]
    for command in (
        ["report", "eval_results"],
        ["eval", "status", "-o", "eval_results"],
        ["check", "eval_results"],
    ):
        again = nel(*command, code=None)
        shown.append(again.stdout + again.stderr)
    assert [form for form in FORMS if form in "".join(shown)] == []
