"""Programs as people write them: solvers, clients, judges, environments, sandboxes and comparisons from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plain_sandbox import PlainSandbox

import nemo_evaluator as nel
from nemo_evaluator import (
    ChatSolver,
    CompletionSolver,
    ModelClient,
    SeedResult,
    SolveResult,
    VerifyResult,
)
from nemo_evaluator.engine import write_all
from nemo_evaluator.environments.custom import benchmark, scorer
from nemo_evaluator.errors import InfraError
from nemo_evaluator.sandbox import ExecResult
from nemo_evaluator.store.fingerprints import problem_hash
from nemo_evaluator.testing import ScriptedServer

ROWS = [{"q": f"{n} + {n}", "a": str(2 * n)} for n in range(6)]


class Sums(nel.EvalEnvironment):
    name = "own-sums"

    def __init__(self) -> None:
        self.dataset = ROWS
        self.closed = 0

    async def seed(self, idx: int) -> SeedResult:
        return SeedResult(prompt=self.dataset[idx]["q"], expected_answer=self.dataset[idx]["a"])

    async def verify(
        self, response: str, expected: str, sandbox: Any = None, **metadata: Any
    ) -> VerifyResult:
        return VerifyResult(reward=float(response.strip() == expected), extracted_answer=response)

    async def close(self) -> None:
        self.closed += 1


def added(request: Any) -> str:
    text = (
        request.body["messages"][-1]["content"]
        if "messages" in request.body
        else request.body["prompt"]
    )
    return str(sum(int(part) for part in text.split(" + ")))


@pytest.fixture
def capitals() -> Any:
    @benchmark(
        name="surface_caps",
        dataset=lambda: ROWS,
        prompt="{q}",
        target_field="a",
        system_prompt="Be brief.",
    )
    @scorer
    def score(sample: nel.ScorerInput) -> dict[str, Any]:
        return nel.exact_match(sample)

    return nel.get_environment("surface_caps")


async def test_a_chat_solver_over_a_model_client_runs_and_the_environment_is_closed(
    tmp_path: Path,
) -> None:
    async with ScriptedServer(added) as server:
        client = ModelClient(base_url=server.url, model="m", temperature=0.0)
        environment = Sums()
        bundle = await nel.run_evaluation(
            environment, ChatSolver(client), n_repeats=2, step_log_dir=tmp_path / "run"
        )
        assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
        assert bundle["config"]["model"] == "m"
        assert environment.closed == 1
        # The client is the caller's: it still answers.
        assert (await client.chat("1 + 1")).content == "2"
        await client.close()
        again = write_all(bundle, tmp_path / "kept")
        assert (again / "results.jsonl").is_file()
        assert list(again.glob("eval-*.json"))


async def test_another_client_is_another_fingerprint(tmp_path: Path) -> None:
    async with ScriptedServer(added) as server:
        for model, asked in (("m", 6), ("m", 6), ("other", 12)):
            client = ModelClient(base_url=server.url, model=model)
            await nel.run_evaluation(Sums(), ChatSolver(client), step_log_dir=tmp_path, resume=True)
            await client.close()
            assert server.count == asked


async def test_a_completion_solver_makes_a_client_of_its_own() -> None:
    async with ScriptedServer(added) as server:
        solver = CompletionSolver(base_url=server.url, model="base", max_tokens=16)
        bundle = await nel.run_evaluation(Sums(), solver)
        assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
        assert {seen.path for seen in server.requests} == {"/v1/completions"}
        assert server.requests[0].body["max_tokens"] == 16
        with pytest.raises(TypeError, match="base_url"):
            CompletionSolver(ModelClient(base_url=server.url, model="m"), base_url=server.url)


async def test_a_model_client_is_a_judge(tmp_path: Path) -> None:
    @benchmark(name="surface_judged", dataset=lambda: ROWS[:2], prompt="{q}", target_field="a")
    @scorer
    def score(sample: nel.ScorerInput) -> dict[str, Any]:
        return nel.needs_judge(sample)

    def judge(seen: Any) -> str:
        return json.dumps(
            {"reasoning": "so", "score": 1 if "stupid question" in seen.prompt else 5}
        )

    async with ScriptedServer(added) as server, ScriptedServer(judge) as judging:
        client, referee = (ModelClient(base_url=one.url, model="m") for one in (server, judging))
        environment = nel.get_environment("surface_judged")
        bundle = await nel.run_evaluation(
            environment, ChatSolver(client), judge_client=referee, step_log_dir=tmp_path
        )
        assert [row["reward"] for row in bundle["_results"]] == [1.0, 1.0]
        await client.close()
        await referee.close()


async def test_a_custom_solver_may_send_the_messages_of_a_task(capitals: Any) -> None:
    class Mine:
        def __init__(self, client: ModelClient) -> None:
            self.client = client

        async def solve(self, task: SeedResult) -> SolveResult:
            reply = await self.client.chat(messages=task.messages)
            return SolveResult(response=reply.content, model_response=reply)

    async with ScriptedServer(added) as server:
        client = ModelClient(base_url=server.url, model="m")
        bundle = await nel.run_evaluation(capitals, Mine(client))
        await client.close()
        assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
        assert bundle["config"]["model"] == "m"
        assert server.requests[0].body["messages"][0] == {"role": "system", "content": "Be brief."}


async def test_messages_of_a_benchmark_say_system_and_user_and_change_no_hash(
    capitals: Any,
) -> None:
    seed = await capitals.seed(1)
    assert seed.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 1"},
    ]
    bare = SeedResult(seed.prompt, seed.expected_answer, seed.metadata, system=seed.system)
    assert problem_hash(seed) == problem_hash(bare)
    other = SeedResult(
        seed.prompt,
        seed.expected_answer,
        messages=[*seed.messages, {"role": "user", "content": "?"}],
    )
    assert problem_hash(other) != problem_hash(bare)


async def test_an_environment_can_be_run_twice(capitals: Any) -> None:
    async with ScriptedServer(added) as server:
        client = ModelClient(base_url=server.url, model="m")
        for _ in range(2):
            bundle = await nel.run_evaluation(capitals, ChatSolver(client))
            assert bundle["benchmark"]["scores"]["pass@1"]["value"] == 1.0
        await client.close()


async def test_an_infra_error_of_a_solver_is_a_failed_row() -> None:
    class Down:
        async def solve(self, task: SeedResult) -> SolveResult:
            raise InfraError("Model endpoint unreachable")

    bundle = await nel.run_evaluation(Sums(), Down(), max_system_retries=1)
    assert {row["status"] for row in bundle["_results"]} == {"failed"}


def test_the_result_of_a_command_has_its_documented_order() -> None:
    done = ExecResult("out", "err", 3)
    assert (done.stdout, done.stderr, done.return_code, done.exit_code, done.ok) == (
        "out",
        "err",
        3,
        3,
        False,
    )


@pytest.mark.needs("bwrap")
async def test_a_command_takes_its_timeout_by_place_and_by_either_name() -> None:
    from nemo_evaluator.config import LocalSandbox
    from nemo_evaluator.sandbox.manager import SandboxManager

    manager = SandboxManager(LocalSandbox(), "surface")
    async with manager.session(SeedResult("p", "a")) as session:
        box = session.agent
        assert box is not None
        assert (await box.exec("echo hi", 30)).stdout == "hi\n"
        assert (await box.exec("echo hi", timeout_sec=300)).stdout == "hi\n"
        assert (await box.exec("sleep 20", timeout_sec=1)).timed_out
        assert box.container_ip is None
    await manager.close()


async def test_code_sandbox_is_a_plain_function_in_a_plain_scorer() -> None:
    @benchmark(name="surface_code", dataset=lambda: [{"q": "f"}], prompt="{q}", target_field="q")
    @scorer
    def score(sample: nel.ScorerInput) -> dict[str, Any]:
        sample.metadata.update(_test="def check(f):\n    assert f(2) == 4\n", _entry_point="f")
        found = nel.code_sandbox(sample)
        return {"correct": found["correct"], "extracted": found["extracted"]}

    environment = nel.get_environment("surface_code")
    seed = await environment.seed(0)
    box: Any = PlainSandbox()
    for code, reward in (("def f(n): return n + n", 1.0), ("def f(n): return 0", 0.0)):
        verdict = await environment.verify_answer(f"```python\n{code}\n```", seed, box)
        assert verdict.reward == reward
    sample = nel.ScorerInput(
        "def f(n): return 4", "", {"_test": "assert f(1) == 4", "_entry_point": "f"}, sandbox=box
    )
    assert (await nel.code_sandbox(sample))["correct"]
    await environment.close()


def test_comparisons_are_read_as_mappings_and_from_rows() -> None:
    from nemo_evaluator.engine import FlipReport, build_flip_report, compare_results, match_bundles
    from nemo_evaluator.metrics import bootstrap_ci, category_breakdown, mcnemar_test

    left = [
        {"problem_idx": n, "repeat": 0, "reward": 1.0, "metadata": {"category": "c"}}
        for n in range(20)
    ]
    right = [row | {"reward": float(row["problem_idx"] >= 8)} for row in left]
    report = compare_results(left, right)
    assert report["verdict"] == report.verdict == "BLOCK"
    assert report.get("flip_report", {})["summary"]["n_regressions"] == 8
    assert "score_deltas" in report and dict(report) == report.to_dict()
    by_step = [{(row["problem_idx"], 0): row for row in rows} for rows in (left, right)]
    flips = build_flip_report(*by_step)
    assert isinstance(flips, FlipReport) and flips["summary"]["n_regressions"] == 8
    test = mcnemar_test(flips.contingency)
    assert (test.n_discordant, test.effect_size, test.p_value) == (8, 0.4, pytest.approx(0.5**8))
    interval = bootstrap_ci([0.0, 1.0, 1.0])
    assert interval.ci_lower <= interval.mean <= interval.ci_upper
    assert category_breakdown(left)["c"]["mean_reward"] == 1.0
    assert list(match_bundles({}, {})) == []


async def test_paired_records_unpack_into_rows_of_both_sides(tmp_path: Path) -> None:
    from nemo_evaluator.engine import discover_bundles, load_paired_records, match_bundles

    async with ScriptedServer(added) as server:
        client = ModelClient(base_url=server.url, model="m")
        for side in ("a", "b"):
            await nel.run_evaluation(Sums(), ChatSolver(client), step_log_dir=tmp_path / side)
        await client.close()
    left, right = load_paired_records(tmp_path / "a", tmp_path / "b")
    assert left.keys() == right.keys() == {(n, 0) for n in range(6)}
    assert left[2, 0]["model_response"] == "4"
    [(name, one, other)] = match_bundles(
        discover_bundles(tmp_path / "a"), discover_bundles(tmp_path / "b")
    )
    assert (name, one.path.parent.name, other.path.parent.name) == ("own-sums", "a", "b")


@pytest.mark.needs("docker")
async def test_a_container_with_a_network_has_an_address() -> None:
    from nemo_evaluator.config import DockerSandbox
    from nemo_evaluator.sandbox.manager import SandboxManager

    for network, has_one in (("bridge", True), ("none", False)):
        manager = SandboxManager(
            DockerSandbox(image="python:3.12-slim", network=network), "surface"
        )
        async with manager.session(SeedResult("p", "a")) as session:
            box = session.agent
            assert box is not None
            assert (await box.exec("echo hi", timeout_sec=60)).stdout == "hi\n"
            assert (box.container_ip is not None) is has_one
        await manager.close()
