"""``--resume`` from the command line: what each change of a config costs, counted by the server."""

import pytest
from nel_support import Nel, Serve, Sums, api, bench

from nemo_evaluator.testing import ScriptedServer

PROBLEMS, REPEATS = 6, 2
ALL = PROBLEMS * REPEATS


@pytest.mark.parametrize(
    ("override", "asked", "said"),
    [
        ("services.model.generation.temperature=0.7", ALL, "service changed"),
        (
            "benchmarks.0.solver.generation.temperature=0.7",
            ALL,
            "solver or generation settings changed",
        ),
        (
            "benchmarks.0.solver.system_prompt=Be brief.",
            ALL,
            "solver or generation settings changed",
        ),
        ("services.model.model=other", ALL, "service changed"),
        ("benchmarks.0.repeats=4", ALL, "12 reused, 12 new"),
        ("benchmarks.0.max_concurrent=1", 0, "12 reused"),
        ("benchmarks.0.shuffle_seed=7", 0, "12 reused"),
        ("services.model.timeouts.total=99", 0, "12 reused"),
        ("output.progress_interval=9", 0, "12 reused"),
    ],
)
def test_what_a_change_costs(
    nel: Nel, serve: Serve, sums: Sums, override: str, asked: int, said: str
) -> None:
    server = serve("6")
    one = bench(sums(PROBLEMS), repeats=REPEATS)
    config = nel.config("c.yaml", services={"model": api(server.url)}, benchmarks=[one])
    nel("eval", "run", config)
    before = server.count
    done = nel("eval", "run", config, "--resume", "-O", override)
    assert server.count - before == asked
    assert said in done.stderr


def test_another_port_or_folder_is_no_change(nel: Nel, serve: Serve, sums: Sums) -> None:
    def config(server: ScriptedServer, folder: str) -> str:
        services = {"model": api(server.url)}
        return nel.config(
            "c.yaml", services=services, benchmarks=[bench(sums(PROBLEMS))], output={"dir": folder}
        )

    first, second = serve("6"), serve("6")
    nel("eval", "run", config(first, "here"))
    (nel.folder / "here").rename(nel.folder / "there")
    nel("eval", "run", config(second, "there"), "--resume")
    assert (first.count, second.count) == (PROBLEMS, 0)


def test_a_changed_scorer_asks_nothing_and_verifies_all(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=[bench(sums(PROBLEMS))]
    )
    nel("eval", "run", config)
    file = nel.folder / "sums.py"
    file.write_text(
        file.read_text().replace("return exact_match(sample)", 'return {"correct": True}')
    )
    done = nel("eval", "run", config, "--resume")
    assert server.count == PROBLEMS
    assert "6 redone: scorer changed" in done.stderr
    assert "1.0000" in done.stdout
