"""What of a command line others may read."""

from __future__ import annotations

import pytest

from nemo_evaluator.core.arguments import carried_arguments, masked_arguments

KEY = "sk-argument-0123456789"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--api-key", KEY, "-v"], ["--api-key", "***", "-v"]),
        ([f"--api-key={KEY}"], ["--api-key=***"]),
        (["--api-key", "short"], ["--api-key", "***"]),
        (["-O", f"services.m.api_key={KEY}"], ["-O", "services.m.api_key=***"]),
        ([f"-Oservices.m.api_key={KEY}"], ["-Oservices.m.api_key=***"]),
        ([f"--override=services.m.api_key={KEY}"], ["--override=services.m.api_key=***"]),
        (["-O", f"services.m={{api_key: {KEY}}}"], ["-O", "services.m=***"]),
        (["-O", f"services.m.proxy.extra_headers.Authorization=Bearer {KEY}x"], None),
        (["--model-url", "http://u:pass-in-url-1@h/v1"], ["--model-url", "http://u:***@h/v1"]),
        (["--model-url=http://h/v1?key=key-in-url-1"], ["--model-url=http://h/v1?key=***"]),
        (["--api-key-env", "MY_KEY", "-v"], ["--api-key-env", "MY_KEY", "-v"]),
        (["--api-key-env", KEY], ["--api-key-env", "***"]),
        ([f"--judge-api-key-env={KEY}"], ["--judge-api-key-env=***"]),
        (["--judge-url=http://h/v1?key=key-in-url-1"], ["--judge-url=http://h/v1?key=***"]),
        (["-O", "services.m.api_key=${MY_KEY}"], ["-O", "services.m.api_key=${MY_KEY}"]),
        (
            ["-O", "benchmarks.0.repeats=3", "-b", "gsm8k", "-O"],
            ["-O", "benchmarks.0.repeats=3", "-b", "gsm8k", "-O"],
        ),
    ],
)
def test_secrets_are_masked_and_carried(words, shown):
    masked = masked_arguments(words)
    assert shown is None or masked == shown
    assert KEY not in " ".join(masked)
    carried = carried_arguments(words)
    assert [
        carried.get(f"NEL_ARGUMENT_{number}", word) for number, word in enumerate(masked)
    ] == words
