"""Quick mode with a judge: its URL, its model, its key; and keys by the names of their variables."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from nel_support import Nel, Serve, command_lines_with

from nemo_evaluator.testing import Say

KEY = f"sk-named-by-a-variable-{os.getpid():010d}"
FILE = """
from nemo_evaluator import benchmark, needs_judge, scorer

@benchmark(name="judged", dataset=lambda: [{"q": str(n), "a": "x"} for n in range(3)], prompt="{q}", target_field="a")
@scorer
def judged(sample):
    return needs_judge(sample)
"""


def judge(seen: object) -> str:
    bad = "stupid question" in seen.prompt  # type: ignore[attr-defined]
    return json.dumps({"reasoning": "so", "score": 1 if bad else 5})


def test_a_judge_and_keys_by_name(nel: Nel, serve: Serve) -> None:
    (nel.folder / "judged.py").write_text(FILE)
    nel.env |= {"MY_KEY": KEY + "-model", "MY_JUDGE": KEY + "-judge", "NEMO_API_KEY": "wrong"}
    nel.env.pop("NEMO_JUDGE_API_KEY", None)
    server, judging = (
        serve(Say("x", delay=0.3), api_key=KEY + "-model"),
        serve(judge, api_key=KEY + "-judge"),
    )
    quick = ("eval", "run", "--bench", "judged.py", "--model-url", server.url, "--model-id", "m")
    own = ("--api-key-env", "MY_KEY")
    refused = nel(*quick, *own, "-o", "out", code=1)
    assert "--judge-url" in refused.stderr and server.count == 0
    assert "--judge-id" in nel(*quick, *own, "--judge-url", judging.url, "-o", "out", code=1).stderr
    judged = (
        *quick,
        *own,
        "--judge-url",
        judging.url,
        "--judge-id",
        "j",
        "--judge-api-key-env",
        "MY_JUDGE",
    )
    process = nel.start(*judged, "-o", "out")
    deadline = time.monotonic() + 180
    while not server.count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert command_lines_with(KEY) == []
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "1.0000" in out
    assert {seen.headers["authorization"] for seen in judging.requests} == {f"Bearer {KEY}-judge"}
    assert {seen.body["model"] for seen in judging.requests} == {"j"}
    files = [file for file in Path(nel.folder, "out").rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


def test_the_models_key_is_not_sent_to_another_judge(nel: Nel, serve: Serve) -> None:
    (nel.folder / "judged.py").write_text(FILE)
    server, judging = serve("x"), serve(judge)
    quick = (
        "eval",
        "run",
        "--bench",
        "judged.py",
        "--model-url",
        server.url,
        "--model-id",
        "m",
        "--judge-id",
        "j",
    )
    nel.env |= {"NEMO_API_KEY": "model-key-0123456789"}
    nel.env.pop("NEMO_JUDGE_API_KEY", None)
    nel(*quick, "--judge-url", judging.url, "-o", "a")
    assert all("authorization" not in seen.headers for seen in judging.requests)
    judging.requests.clear()
    nel.env["NEMO_JUDGE_API_KEY"] = "judge-key-0123456789"
    nel(*quick, "--judge-url", judging.url, "-o", "b")
    assert {seen.headers["authorization"] for seen in judging.requests} == {
        "Bearer judge-key-0123456789"
    }


def test_a_key_in_the_place_of_a_name_is_not_repeated(nel: Nel) -> None:
    quick = (
        "eval",
        "run",
        "--bench",
        "quickstart",
        "--model-url",
        "http://127.0.0.1:9/v1",
        "--model-id",
        "m",
    )
    for flag in ("--api-key-env", "--judge-api-key-env"):
        said = nel(*quick, flag, KEY, code=1).stderr
        assert KEY not in said and "name of an environment variable" in said
    assert "NOT_SET_ANYWHERE" in nel(*quick, "--api-key-env", "NOT_SET_ANYWHERE", code=1).stderr
    assert "exclude" in nel(*quick, "--api-key-env", "A", "--api-key", "b", code=1).stderr
    refused = nel("eval", "run", "c.yaml", "--judge-url", "http://127.0.0.1:9/v1", code=1).stderr
    assert "--judge-url is for quick mode" in refused
