"""A finished run of a benchmark with a summary that has more to do: its rows change, and so does the summary."""

from nel_support import Nel, Serve, api, bench, rows

from nemo_evaluator.testing import Say

FILE = """
from nemo_evaluator import ScorerInput, benchmark, exact_match, scorer


def rows():
    return [{"question": f"How much is {n} + {n}?", "target": str(2 * n)} for n in range(8)]


def summary(details):
    return {"seen": float(sum(1 for _ in details))}


@benchmark(name="summed", dataset=rows, prompt="{question}", target_field="target", summary=summary)
@scorer
def score(sample: ScorerInput) -> dict:
    return exact_match(sample)
"""


def test_failed_rows_are_asked_again_and_the_summary_follows(nel: Nel, serve: Serve) -> None:
    (nel.folder / "summed.py").write_text(FILE)
    down = [True]
    server = serve(
        lambda seen: Say(status=400) if down[0] and "3 + 3" in str(seen.body) else Say("6")
    )
    config = nel.config(
        "c.json",
        services={"model": api(server.url)},
        benchmarks=[bench("summed.py", min_coverage=0.5)],
        output={"dir": "o"},
    )
    nel("eval", "run", config, code=None)
    assert sum(row["status"] == "failed" for row in rows(nel.folder / "o" / "summed")) == 1
    down[0] = False
    nel("eval", "run", config, "--resume")
    assert [row["status"] for row in rows(nel.folder / "o" / "summed")] == ["scored"] * 8
