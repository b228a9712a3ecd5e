"""What would fail later is said first, all at once, the same by `config check`, `--dry-run` and `eval run`."""

import json

import pytest
from nel_support import Nel, Sums, api, bench

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
    "benchmarks[7].name": "there is no number 99",
}


def test_the_same_list_everywhere_and_nothing_is_written(nel: Nel, config: str) -> None:
    said = json.loads(nel("config", "check", config, "--json", code=1).stdout)
    found = {problem["path"]: problem["message"] for problem in said["problems"]}
    assert sorted(found) == sorted(EXPECTED)
    assert [path for path, part in EXPECTED.items() if part not in found[path]] == []
    assert all(problem["line"] for problem in said["problems"])
    shown = nel("config", "check", config, code=1).stderr
    assert shown == nel("eval", "run", config, "--dry-run", code=1).stderr == nel("eval", "run", config, code=1).stderr
    assert not (nel.folder / "o").exists()
    assert nel("config", "check", config, "--file-only").stdout.startswith("ok: ")


def test_a_plan_that_can_be_run_ends_with_0(nel: Nel, sums: Sums) -> None:
    services = {"model": api("http://127.0.0.1:9/v1")}
    config = nel.config("c.yaml", services=services, benchmarks=[bench(sums(3))], output={"dir": "o"})
    assert "3 problems x 1 = 3 steps" in nel("eval", "run", config, "--dry-run").stdout
    assert not (nel.folder / "o").exists()
