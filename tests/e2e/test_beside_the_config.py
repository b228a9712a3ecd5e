"""Files that a config names are found beside it, from wherever the command is run; also again on resume."""

from __future__ import annotations

import json
from pathlib import Path

from nel_support import Nel, Serve, Sums, api

SOLVER = """
from nemo_evaluator import SolveResult

class Shouter:
    def __init__(self, client):
        self.client = client

    async def solve(self, task):
        reply = await self.client.chat([{"role": "user", "content": task.prompt.upper()}])
        return SolveResult(response=reply.content)
"""


def judge(seen: object) -> str:
    bad = "stupid question" in seen.prompt  # type: ignore[attr-defined]
    return json.dumps({"reasoning": "so", "score": 1 if bad else 5})


def test_a_benchmark_solver_rubric_and_template_beside_the_config(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server, judging = serve("4"), serve(judge)
    home = nel.folder / "configs"
    home.mkdir()
    (nel.folder / sums(3)).rename(home / "sums.py")
    (home / "solver.py").write_text(SOLVER)
    (home / "rubric.txt").write_text("Is it kind?")
    (home / "ask.j2").write_text("Please: {{ original_prompt }}")
    config = nel.config(
        "configs/c.yaml",
        services={"model": api(server.url), "judge": api(judging.url)},
        benchmarks=[
            {
                "name": "sums.py",
                "solver": {"type": "custom", "class_path": "solver.py:Shouter", "service": "model"},
                "instruction_template": "ask.j2",
                "scoring": {
                    "metrics": [
                        {
                            "type": "judge",
                            "name": "kind",
                            "service": "judge",
                            "rubric_file": "rubric.txt",
                        }
                    ]
                },
            }
        ],
        output={"dir": "o"},
    )
    nel("config", "check", config)
    nel("eval", "run", config)
    assert (nel.folder / "o" / "sums").is_dir(), "named after @benchmark, not after the file"
    assert all("PLEASE: HOW MUCH" in seen.prompt for seen in server.requests)
    assert any("Is it kind?" in seen.prompt for seen in judging.requests)
    asked = server.count
    elsewhere = Nel(nel.folder / "elsewhere")
    elsewhere.folder.mkdir()
    elsewhere("eval", "resume", str(nel.folder / "o"))
    assert server.count == asked
    elsewhere("eval", "rescore", str(nel.folder / "o"), "-o", "again")
    elsewhere("eval", "rescore", "again", "-o", "and-again")
    assert server.count == asked


def test_what_is_nowhere_says_where_it_was_looked_for(nel: Nel) -> None:
    Path(nel.folder, "configs").mkdir()
    config = nel.config(
        "configs/c.yaml",
        services={"model": api("http://127.0.0.1:9/v1")},
        benchmarks=[{"name": "none.py"}, {"name": "quickstart", "instruction_template": "none.j2"}],
    )
    said = nel("config", "check", config, code=1).stderr
    for file in ("none.py", "none.j2"):
        assert file in said
    assert f"{nel.folder}/configs and {nel.folder}" in said
