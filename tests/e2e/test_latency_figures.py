"""Latency is the server's; waiting for a free place is a figure of its own."""

from __future__ import annotations

import json
from pathlib import Path

from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import Say


def test_the_queue_is_not_in_the_latency(
    nel: Nel, serve: Serve, sums: Sums, tmp_path: Path
) -> None:
    server = serve(lambda seen: Say("4", delay=0.2))
    name = nel.config(
        "c.yaml",
        services={"model": api(server.url, max_concurrent=1)},
        benchmarks=[bench(sums(8), max_concurrent=8)],
        output={"dir": "out"},
    )
    nel("eval", "run", name)
    (bundle,) = (tmp_path / "out").glob("*/eval-*.json")
    runtime = json.loads(bundle.read_text())["benchmark"]["scores"]["runtime"]
    assert 190 < runtime["latency_percentiles_ms"]["p50"] < 500
    assert runtime["queue_percentiles_ms"]["p50"] > 600
