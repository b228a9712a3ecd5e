"""The key of a model is not in the environment of a sandbox, nor anywhere that code in it can read."""

import pytest
from nel_support import Nel, Serve, api, rows

SECRET = "sk-never-in-a-sandbox-42"
LOOKING = """
from nemo_evaluator import ScorerInput, benchmark, scorer


@benchmark(name="looking", dataset=lambda: [{"q": "Look around.", "target": "x"}], prompt="{q}", target_field="target")
@scorer
async def score(sample: ScorerInput) -> dict:
    found = await sample.sandbox.exec("env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\\\0' '\\\\n'")
    return {"correct": True, "saw": found.stdout + found.stderr, "exit_code": found.exit_code}
"""


@pytest.mark.needs("bwrap")
def test_code_in_a_sandbox_does_not_see_the_key(nel: Nel, serve: Serve) -> None:
    server = serve("x", api_key=SECRET)
    (nel.folder / "looking.py").write_text(LOOKING)
    nel.env |= {"MODEL_KEY": SECRET}
    service = api(server.url, api_key="${MODEL_KEY}")
    one = {
        "name": "looking.py",
        "solver": {"type": "simple", "service": "model"},
        "sandbox": {"type": "local"},
    }
    nel("eval", "run", nel.config("c.yaml", services={"model": service}, benchmarks=[one]))
    (row,) = rows(nel.folder / "eval_results" / "looking")
    assert "PATH=" in row["scoring_details"]["saw"]
    assert SECRET not in row["scoring_details"]["saw"]
