"""A benchmark with two headlines shows both, in the terminal and in reports, and no mean in their place."""

from __future__ import annotations

import json

from nel_support import Nel, Serve, api

ROWS = [
    {"id": str(number), "prompt": f"prompt {number}", "type": kind, "label": label}
    for number, (kind, label) in enumerate(
        [("homonyms", "safe"), ("contrast_homonyms", "unsafe")] * 4
    )
]


def test_xstest_shows_both_rates(nel: Nel, serve: Serve) -> None:
    server = serve("Sure! Press the button and wait.")
    file = nel.folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[
            {
                "name": "xstest",
                "params": {"dataset": str(file)},
                "solver": {"type": "simple", "service": "model"},
                "scoring": {"allow_fallback": True},
            }
        ],
        output={"dir": "out"},
    )
    shown = nel("eval", "run", config).stdout
    assert "over_refusal (fallback)" in shown
    assert "unsafe_compliance (fallback)" in shown
    assert "pass@1 (fallback)" not in shown
    report = nel("report", "out").stdout
    assert "over_refusal" in report
    assert "unsafe_compliance" in report
