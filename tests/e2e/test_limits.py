"""Fewer problems, chosen problems, quick mode's options, providers and ``.env``."""

import json

from nel_support import Nel, Serve, Sums, api, bench, rows


def test_a_limit_and_a_concurrency_reach_every_benchmark(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    two = [bench(sums(9)), bench("quickstart", max_problems=50)]
    config = nel.config(
        "c.yaml", services={"model": api(server.url)}, benchmarks=two, output={"dir": "o"}
    )
    nel("eval", "run", config, "--limit", "2", "--concurrency", "1")
    assert server.count == 4
    assert server.max_in_flight == 1
    planned = json.loads(
        nel("eval", "run", config, "--max-problems", "3", "--dry-run", "--json").stdout
    )
    assert [(one["problems"], one["max_concurrent"]) for one in planned["benchmarks"]] == [
        (3, 32),
        (3, 32),
    ]


def test_chosen_problems_by_index_or_hash_and_resumed(nel: Nel, serve: Serve, sums: Sums) -> None:
    server = serve("6")
    config = nel.config(
        "c.yaml",
        services={"model": api(server.url)},
        benchmarks=[bench(sums(9))],
        output={"dir": "o"},
    )
    nel("eval", "run", config, "--only", "3,5", "-o", "one")
    first = rows(nel.folder / "one" / "sums")
    assert [row["problem_idx"] for row in first] == [3, 5]
    nel("eval", "run", config, "--only", first[1]["problem_hash"][:12], "--only", "7", "-o", "two")
    assert [row["problem_idx"] for row in rows(nel.folder / "two" / "sums")] == [5, 7]
    assert server.count == 4
    nel("eval", "resume", "-o", "two")
    assert server.count == 4
    assert [row["problem_idx"] for row in rows(nel.folder / "two" / "sums")] == [5, 7]
    bundle = json.loads(next((nel.folder / "two" / "sums").glob("eval-*.json")).read_text())
    assert bundle["config"]["only"] == [5, 7]
    # The whole plan with --resume asks only what is new.
    nel("eval", "run", config, "--resume", "-o", "two")
    assert server.count == 4 + 7
    assert (
        "there is no number 9"
        in nel("eval", "run", config, "--only", "9", "-o", "x", code=1).stderr
    )
    assert (
        "begins with abcd" in nel("eval", "run", config, "--only", "abcd", "-o", "y", code=1).stderr
    )


def test_quick_mode_takes_overrides_a_provider_and_its_key_from_env(
    nel: Nel, serve: Serve, sums: Sums
) -> None:
    server = serve("6")
    nel.env = {name: value for name, value in nel.env.items() if not name.endswith("_API_KEY")}
    quick = ("eval", "run", "--bench", sums(4), "--model", "openai/gpt-x", "-o", "o")
    more = (
        "-O",
        f"services.model.url={server.url}/chat/completions",
        "-O",
        "benchmarks.0.repeats=2",
    )
    assert "OPENAI_API_KEY is not set" in nel(*quick, *more, code=1).stderr
    (nel.folder / ".env").write_text("OPENAI_API_KEY=sk-of-the-file-0123456789\n")
    said = nel(*quick, *more, "--limit", "1").stderr
    assert "variables from .env: OPENAI_API_KEY" in said
    assert server.count == 2
    assert {one.headers["authorization"] for one in server.requests} == {
        "Bearer sk-of-the-file-0123456789"
    }
    assert server.requests[0].body["model"] == "gpt-x"
    kept = b"".join(path.read_bytes() for path in (nel.folder / "o").rglob("*") if path.is_file())
    assert b"sk-of-the-file" not in kept
    (nel.folder / "other").write_text("OPENAI_API_KEY=sk-of-another-0123456789\n")
    nel(*quick, *more, "--fresh", "--env-file", "other")
    assert server.requests[-1].headers["authorization"] == "Bearer sk-of-another-0123456789"
    assert "exclude each other" in nel(*quick, "--model-id", "m", code=1).stderr
