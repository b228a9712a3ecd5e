"""Whole runs: a cached run repeated, and what the row says for each kind of bad server."""

from __future__ import annotations

from pathlib import Path

from nel_support import Nel, Serve, Sums, api, bench, rows

from nemo_evaluator.testing import Fault, Say

TIMING = {"latency_ms", "queue_ms", "attempts", "metadata"}

FAULTS = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


def rows():
    return [{{"question": name, "target": "fine"}} for name in {names!r}]


@benchmark(name="faults", dataset=rows, prompt="{{question}}", target_field="target")
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""

# Prompt: what the server does, the cause in the row, the tries of two, words of the message.
TABLE = {
    "good": (Say("fine"), None, 1, ""),
    "500": (Say(status=500, message="stumbled"), "transport", 2, "HTTP 500: stumbled"),
    "502": (Say(status=502), "transport", 2, "HTTP 502"),
    "503": (Say(status=503), "transport", 2, "HTTP 503"),
    "504": (Say(status=504), "transport", 2, "HTTP 504"),
    "408": (Say(status=408), "transport", 2, "HTTP 408"),
    "html": (Say(status=500, fault=Fault.WRONG_TYPE), "transport", 2, "Gateway login"),
    "429": (Say(status=429, retry_after=0.01, message="slow down"), "rate_limit", 2, "slow down"),
    "400": (Say(status=400, message="bad field"), "request_rejected", 1, "bad field"),
    "409": (Say(status=409, message="conflict"), "request_rejected", 1, "conflict"),
    "422": (Say(status=422, message="odd"), "request_rejected", 1, "odd"),
    "reset": (Say(fault=Fault.RESET), "transport", 2, "connection"),
    "close": (Say(fault=Fault.CLOSE), "transport", 2, "closed the connection"),
    "stall": (Say(fault=Fault.STALL), "transport", 2, "timeouts.first_byte"),
    "stall_headers": (Say(fault=Fault.STALL_HEADERS), "transport", 2, "timeouts.idle"),
    "stall_body": (Say(fault=Fault.STALL_BODY), "transport", 2, "timeouts.idle"),
    "truncated_json": (Say(fault=Fault.TRUNCATED_JSON), "transport", 2, "without JSON"),
    "truncated_body": (Say(fault=Fault.TRUNCATED_BODY), "transport", 2, "middle of the answer"),
    "malformed_json": (Say(fault=Fault.MALFORMED_JSON), "transport", 2, "without JSON"),
    "list": (Say(fault=Fault.NOT_AN_OBJECT), "transport", 2, "not an object"),
    "empty_body": (Say(fault=Fault.EMPTY_BODY), "transport", 2, "0 bytes"),
    "empty_choices": (Say(fault=Fault.EMPTY_CHOICES), "transport", 2, "without choices"),
    "null_choices": (Say(fault=Fault.NULL_CHOICES), "transport", 2, "without choices"),
    "no_message": (Say(fault=Fault.NO_MESSAGE), "transport", 2, "no message"),
    "wrong_type": (Say(fault=Fault.WRONG_TYPE), "transport", 2, "text/html"),
    "encoding": (Say(fault=Fault.BAD_ENCODING), "transport", 2, "without JSON"),
    "not_http": (Say(fault=Fault.BAD_HTTP), "transport", 2, "not HTTP"),
    "error_inside": (
        Say(body={"error": {"message": "crashed"}}),
        "transport",
        2,
        "an error inside: crashed",
    ),
    "too_long": (Say(status=400, message="maximum context length is 8 tokens"), None, 1, ""),
}


def test_a_cached_run_repeated_sends_nothing(nel: Nel, serve: Serve, sums: Sums) -> None:
    numbers = iter(range(1000))
    server = serve(lambda _: f"{next(numbers)}")
    service = api(
        server.url,
        generation={"temperature": 1.0},
        proxy={"cache": {"mode": "write", "dir": "answers"}},
    )
    config = nel.config(
        "c.yaml", services={"model": service}, benchmarks=[bench(sums(20), repeats=3)]
    )
    found = []
    for folder in ("first", "second"):
        nel("eval", "run", config, "-o", folder)
        found.append(rows(nel.folder / folder / "sums", drop=TIMING))
    assert found[0] == found[1]
    assert server.count == 60
    # Repeats are asked for themselves.
    assert len({row["model_response"] for row in found[0]}) == 60
    assert "60 answers" in nel("cache", "stats", "--dir", "answers").stdout


def test_the_row_tells_what_the_server_did(nel: Nel, serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "faults.py").write_text(FAULTS.format(names=list(TABLE)))
    server = serve(lambda seen: TABLE[seen.prompt][0])
    service = api(
        server.url,
        timeouts={"connect": 2, "first_byte": 0.5, "idle": 0.5, "total": 5},
        retry={"max_retries": 1, "base_delay": 0.01, "max_delay": 0.02},
    )
    # In the order of the table: once an answer was good, failures do not end the run.
    one = bench("faults.py", max_concurrent=4, max_system_retries=1, shuffle_seed=None)
    config = nel.config("c.yaml", services={"model": service}, benchmarks=[one])
    nel("eval", "run", config, code=None)
    found = {row["prompt"]: row for row in rows(nel.folder / "eval_results" / "faults")}
    assert set(found) == set(TABLE)
    for name, (_, cause, tries, words) in TABLE.items():
        row = found[name]
        if cause is None:
            assert row["status"] == "scored", (name, row)
            continue
        assert row["status"] == "failed", (name, row)
        assert row["reward"] is None, name
        assert row["failure"]["cause"] == cause, (name, row["failure"])
        assert words in row["failure"]["message"], (name, row["failure"])
        assert row["attempts"] == tries, (name, row)
    assert found["too_long"]["label"] == "context_exceeded"
    assert found["too_long"]["reward"] == 0
