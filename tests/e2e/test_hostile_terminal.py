"""What a model or a server says never steers the terminal of the person who reads it."""

from __future__ import annotations

from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import Say

HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\x08\x00 4\n[PASS] p7: forged"
SCRIPT = [Say(HOSTILE), Say(status=400, message=HOSTILE)]


def _controls(text: str) -> list[str]:
    return [repr(char) for char in text if char not in "\n\t" and not char.isprintable()]


def test_no_command_prints_control_characters(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve(SCRIPT)
    quick = ["-b", sums(2), "--model-url", server.url, "--model-id", "m", "-s", "2"]
    for more in (["-v"], [], ["--json"]):
        done = nel("validate", *quick, *more, code=None)
        assert _controls(done.stdout + done.stderr) == []
        assert not [line for line in done.stdout.splitlines() if line.startswith("[PASS] p7")]
    service = api(serve(SCRIPT).url, interceptors=[{"name": "logging"}], retry={"max_retries": 0})
    config = nel.config("c.yaml", services={"model": service}, benchmarks=[bench("sums.py")])
    for words in (
        ["eval", "run", config, "-v"],
        ["eval", "status", "-o", "eval_results"],
        ["eval", "logs", "-o", "eval_results"],
        ["report", "eval_results"],
        ["check", "eval_results"],
    ):
        done = nel(*words, code=None)
        assert _controls(done.stdout + done.stderr) == [], words
