"""What would fail later is said first, all at once, the same by `config check`, `--dry-run` and `eval run`."""

import json
import subprocess
import sys

import pytest
from nel_support import Nel, Serve, Sums, api, bench

BROKEN = "import nowhere_to_be_found\n"
COLUMN = """
from nemo_evaluator import benchmark, exact_match, scorer


@benchmark(name="{name}", dataset=lambda: [{{"q": "1 + 1?", "a": "2"}}], prompt="{{question}}", target_field="a")
@scorer
def score(sample):
    return exact_match(sample)
"""
JUDGED = COLUMN.replace("{{question}}", "{{q}}").replace(
    "exact_match(sample)", '{{"reward": 0.0, "needs_judge": True}}'
)


@pytest.fixture
def config(nel: Nel, sums: Sums) -> str:
    nel.env |= {
        "DOCKER_HOST": "unix:///nowhere/docker.sock",
        "NEL_OFFLINE": "1",
        "NEL_CACHE_DIR": str(nel.folder / "c"),
    }
    nel.env.pop("NEL_DATA_MIRROR", None)
    (nel.folder / "wrong.j2").write_text("{{ no_such_word }}")
    for name, text in {"broken": BROKEN, "column": COLUMN, "judged": JUDGED}.items():
        (nel.folder / f"{name}.py").write_text(text.format(name=name))
    return nel.config(
        "c.yaml",
        services={"model": api("http://127.0.0.1:9/v1")},
        benchmarks=[
            bench("broken.py"),
            bench("column.py"),
            bench("judged.py"),
            bench(sums(3), sandbox={"type": "docker", "image": "python"}),
            bench("gsm8k"),
            bench("sums.py", id="fine"),
            bench("sums.py", id="dear", budget={"usd": 1}),
            bench("sums.py", id="far", only=[99]),
            bench("sums.py", id="template", instruction_template="wrong.j2"),
        ],
        output={"dir": "o"},
    )


EXPECTED = {
    "benchmarks[0].name": "nowhere_to_be_found",
    "benchmarks[1].name": "no such column",
    "benchmarks[2].scoring": "scored by a judge",
    "benchmarks[3].sandbox": "docker",
    "benchmarks[4].name": "gsm8k",
    "benchmarks[6].budget.usd": "needs the price of service 'model'",
    "benchmarks[7].only": "there is no number 99",
    "benchmarks[8].instruction_template": "'no_such_word' is undefined",
}


def test_the_same_list_everywhere_and_nothing_is_written(nel: Nel, config: str) -> None:
    said = json.loads(nel("config", "check", config, "--json", code=1).stdout)
    found = {problem["path"]: problem["message"] for problem in said["problems"]}
    assert sorted(found) == sorted(EXPECTED)
    assert [path for path, part in EXPECTED.items() if part not in found[path]] == []
    assert all(problem["line"] for problem in said["problems"])
    shown = nel("config", "check", config, code=1).stderr
    assert (
        shown
        == nel("eval", "run", config, "--dry-run", code=1).stderr
        == nel("eval", "run", config, code=1).stderr
    )
    assert not (nel.folder / "o").exists()
    assert nel("config", "check", config, "--file-only").stdout.startswith("ok: ")


def test_a_broken_schema_hides_nothing_that_opening_the_benchmarks_shows(
    nel: Nel, config: str
) -> None:
    """The wrong parts are taken out, and what is left is checked; what follows from them is not told."""
    wrong = {
        "services.model.proxy.interceptors=[{name: payload_modifier, config: {params_to_add: 7}}]": (
            "services.model.proxy.interceptors[0].config.params_to_add"
        ),
        "benchmarks.1.max_concurrent=0": "benchmarks[1].max_concurrent",
        "benchmarks.3.solver.service=modl": "benchmarks[3].solver.service",
        "benchmarks.5.scoring.metrics=[{type: jugde}]": "benchmarks[5].scoring.metrics[0].type",
        "outptu={}": "outptu",
    }
    words = [word for override in wrong for word in ("-O", override)]
    said = json.loads(nel("config", "check", config, *words, "--json", code=1).stdout)
    assert sorted(one["path"] for one in said["problems"]) == sorted([*EXPECTED, *wrong.values()])
    shown = nel("config", "check", config, *words, code=1).stderr
    assert shown == nel("eval", "run", config, *words, "--dry-run", code=1).stderr
    assert shown == nel("eval", "run", config, *words, code=1).stderr
    file_only = json.loads(
        nel("config", "check", config, *words, "--json", "--file-only", code=1).stdout
    )
    assert sorted(one["path"] for one in file_only["problems"]) == sorted(wrong.values())
    assert not (nel.folder / "o").exists()


def test_a_plan_that_can_be_run_ends_with_0(nel: Nel, sums: Sums) -> None:
    services = {"model": api("http://127.0.0.1:9/v1")}
    config = nel.config(
        "c.yaml", services=services, benchmarks=[bench(sums(3))], output={"dir": "o"}
    )
    assert "3 problems x 1 = 3 steps" in nel("eval", "run", config, "--dry-run").stdout
    assert not (nel.folder / "o").exists()


JUDGES = {
    "called": "return helper(sample)",
    "renamed": "return other_name(sample)",
    "neighbour": "return grade(sample)",
    "partial": None,
    "klass": None,
}
HEAD = """
from functools import partial
from nemo_evaluator import EvalEnvironment, SeedResult, VerifyResult, benchmark, register, scorer
from nemo_evaluator import needs_judge as other_name
from neighbour_of_judged import grade

ROWS = [{"q": "1 + 1?", "a": "2"}]

def helper(sample):
    return {"reward": 0.0, "needs_judge": True}
"""
SCORED = """
@benchmark(name="NAME", dataset=lambda: ROWS, prompt="{q}", target_field="a")
@scorer
def score(sample):
    BODY
"""
PARTIAL = """
def graded(sample, scale):
    return {"reward": 0.0, "needs_judge": True}

benchmark(name="partial", dataset=lambda: ROWS, prompt="{q}", target_field="a")(scorer(partial(graded, scale=2)))
"""
CLASS = """
@register("klass")
class Judged(EvalEnvironment):
    def __init__(self):
        self.dataset = ROWS

    async def seed(self, idx):
        return SeedResult(prompt=ROWS[idx]["q"], expected_answer="2")

    async def verify(self, response, expected, sandbox=None, **metadata):
        return self._later()

    def _later(self):
        return VerifyResult(0.0, None, {"needs_judge": True})
"""


@pytest.mark.parametrize("how", JUDGES)
def test_a_judge_is_missed_however_the_benchmark_asks_for_one(
    nel: Nel, serve: Serve, how: str
) -> None:
    server = serve("2")
    body = JUDGES[how]
    text = {"partial": PARTIAL, "klass": CLASS}.get(how) or SCORED.replace("NAME", how).replace(
        "BODY", str(body)
    )
    (nel.folder / f"{how}.py").write_text(HEAD + text)
    neighbour = 'def grade(sample):\n    return {"reward": 0.0, "needs_judge": True}\n'
    (nel.folder / "neighbour_of_judged.py").write_text(neighbour)
    quick = (
        "eval",
        "run",
        "--bench",
        f"{how}.py",
        "--model-url",
        server.url,
        "--model-id",
        "m",
        "-o",
        "o",
    )
    said = nel(*quick, code=1).stderr
    assert "scored by a judge" in said and "--judge-url" in said
    assert server.count == 0
    assert not (nel.folder / "o").exists()


def test_a_benchmark_registered_in_python_is_refused_too(nel: Nel) -> None:
    """A package of the user's names its benchmark by an entry point: `tests/support/nel_plugin` does."""
    (nel.folder / "mine.py").write_text(
        HEAD.replace("from neighbour_of_judged import grade", "") + CLASS
    )
    code = "import asyncio, mine, nemo_evaluator as n; asyncio.run(n.run_evaluation(n.get_environment('klass'), None))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=nel.folder, capture_output=True, text=True
    )
    assert "scored by a judge" in done.stderr
