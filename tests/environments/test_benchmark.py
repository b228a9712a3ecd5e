"""The @benchmark API: every parameter, with and without a scorer, sync and async."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator import scoring
from nemo_evaluator.core.errors import ScorerError, UsageError
from nemo_evaluator.core.types import SandboxSpec, SeedResult
from nemo_evaluator.environments import (
    ScorerInput,
    _verdict,
    benchmark,
    get_environment,
    image_builder,
    registry,
    scorer,
)
from nemo_evaluator.sandbox import ImageBuildRequest, ImageSpec

DATA = [{"q": f"q{i}", "target": f"t{i}", "kind": "ab"[i % 2]} for i in range(10)]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    before = dict(registry._environments._targets)
    yield
    registry._environments._targets.clear()
    registry._environments._targets.update(before)


def rows(num_examples: int | None = None) -> list[dict[str, Any]]:
    return [dict(row) for row in DATA]


async def test_without_a_scorer_equality_without_case() -> None:
    @benchmark(name="plain", dataset=rows, prompt="Say {q}")
    def plain() -> None: ...

    env = get_environment("plain")
    seed = await env.seed(1)
    assert (seed.prompt, seed.expected_answer, seed.system) == ("Say q1", "t1", None)
    assert seed.metadata == {
        "source": "byob",
        "benchmark": "plain",
        "q": "q1",
        "target": "t1",
        "kind": "b",
    }
    assert seed.stored_metadata() == {"source": "byob", "benchmark": "plain", "kind": "b"}
    assert (await env.verify_answer(" T1 \n", seed)).reward == 1.0
    verdict = await env.verify("t2", "t1")
    assert (verdict.reward, verdict.scoring_details["method"]) == (0.0, "default_exact_match")


async def test_every_parameter_reaches_where_it_should() -> None:
    seen: list[ScorerInput] = []

    def prepare(row: dict[str, Any], idx: int, rng: random.Random) -> dict[str, Any]:
        return {**row, "idx": idx, "drawn": rng.random()}

    @benchmark(
        name="Full",
        dataset=rows,
        prompt="{idx}: {question} ({kind})",
        target_field="gold",
        endpoint_type="completions",
        system_prompt="Be short.",
        field_mapping={"q": "question", "target": "gold"},
        extra={"a": 1},
        scorer_config={"c": 3},
        requirements=["pytest>=7"],
        prepare_row=prepare,
        b=2,
    )
    @scorer
    async def full(sample: ScorerInput) -> dict[str, Any]:
        seen.append(sample)
        assert sample.config["b"] == 2
        return {"correct": sample.response == sample.target, "extracted": "x", "more": [1]}

    env = get_environment("full")
    seed = await env.seed(4)
    assert (seed.prompt, seed.expected_answer, seed.system) == ("4: q4 (a)", "t4", "Be short.")
    verdict = await env.verify_answer("t4", seed)
    assert verdict.reward == 1.0
    assert verdict.extracted_answer == "x"
    assert verdict.scoring_details == {
        "method": "byob_Full",
        "correct": True,
        "extracted": "x",
        "more": [1],
    }
    assert seen[0].config == {"a": 1, "b": 2, "c": 3}
    assert seen[0].metadata["question"] == "q4"


async def test_what_a_row_becomes_depends_on_its_number_alone() -> None:
    @benchmark(
        name="random",
        dataset=rows,
        prompt="{x}",
        prepare_row=lambda row, idx, rng: {**row, "x": rng.random()},
    )
    def bench() -> None: ...

    forward = [(await get_environment("random").seed(i)).prompt for i in range(10)]
    env = get_environment("random")
    backward = [(await env.seed(i)).prompt for i in reversed(range(10))]
    assert forward == backward[::-1]
    assert forward == [str(random.Random(f"42:{i}").random()) for i in range(10)]


async def test_columns_that_are_called_like_parameters() -> None:
    data = [
        {"response": "r", "expected": "e", "sandbox": "s", "self": "me", "target": "t", "sample": 1}
    ]

    @benchmark(name="clash", dataset=lambda: data, prompt="{response} {expected} {sandbox} {self}")
    @scorer
    def clash(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": sample.metadata["expected"] == "e" and sample.metadata["sandbox"] == "s"}

    env = get_environment("clash")
    seed = await env.seed(0)
    assert seed.prompt == "r e s me"
    assert (await env.verify_answer("x", seed)).reward == 1.0


@pytest.mark.parametrize(
    ("returned", "reward"),
    [({"correct": True}, 1.0), ({"reward": 0.25}, 0.25), ({"score": 0.5}, 0.5), (True, 1.0), (0.75, 0.75),
     ({"correct": 0.5, "reward": 1}, 0.5)],
)  # fmt: skip
async def test_the_reward(returned: Any, reward: float) -> None:
    @benchmark(name="rewards", dataset=rows, prompt="{q}")
    @scorer
    def bench(sample: ScorerInput) -> Any:
        return returned

    verdict = await get_environment("rewards").verify("a" * 300, "b")
    assert verdict.reward == reward
    assert verdict.extracted_answer == "a" * 200


@pytest.mark.parametrize(
    "returned", [None, {}, "yes", {"correct": "maybe"}, {"correct": float("nan")}, {"a": None}]
)
async def test_no_reward_is_an_error_and_no_zero(returned: Any) -> None:
    @benchmark(name="rewards", dataset=rows, prompt="{q}")
    @scorer
    def bench(sample: ScorerInput) -> Any:
        return returned

    with pytest.raises(ScorerError):
        await get_environment("rewards").verify("a", "b")


async def test_nothing_extracted_stays_nothing() -> None:
    @benchmark(name="none", dataset=rows, prompt="{q}")
    @scorer
    def bench(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": False, "extracted": None, "unparsed": True}

    verdict = await get_environment("none").verify("a", "b")
    assert verdict.extracted_answer is None
    assert verdict.scoring_details["unparsed"] is True


async def test_seed_fn_and_its_sandboxes() -> None:
    def seed_fn(row: dict[str, Any], idx: int) -> SeedResult:
        return SeedResult(
            f"do {row['q']}", "", {"row": idx}, sandbox_spec=SandboxSpec(image=f"img-{row['kind']}")
        )

    @benchmark(name="agentic", dataset=rows, seed_fn=seed_fn, system_prompt="sys")
    @scorer
    def bench(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": True}

    env = get_environment("agentic")
    assert (await env.seed(3)).prompt == "do q3"
    assert (await env.seed(3)).system == "sys"
    assert [spec.image for spec in await env.sandbox_specs() or []] == ["img-a", "img-b"]


async def test_image_builder() -> None:
    def build(rows: Any) -> ImageBuildRequest:
        return ImageBuildRequest([ImageSpec(row["q"]) for row in rows][:2])

    @benchmark(name="built", dataset=rows, prompt="{q}")
    @image_builder(build)
    @scorer
    def bench(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": True}

    assert await get_environment("built").image_build_requests() == [
        ImageBuildRequest([ImageSpec("q0"), ImageSpec("q1")])
    ]

    @benchmark(name="wrong", dataset=rows, prompt="{q}")
    @image_builder(lambda rows: ["image"])
    @scorer
    def wrong(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": True}

    with pytest.raises(TypeError, match="not ImageBuildRequest"):
        await get_environment("wrong").image_build_requests()


async def test_num_examples_and_a_dataset_function_that_takes_it() -> None:
    asked: list[int | None] = []

    def source(num_examples: int | None = None, size: int = 10) -> Iterator[dict[str, Any]]:
        asked.append(num_examples)
        return ({"q": i, "target": "t"} for i in range(size))

    @benchmark(name="sized", dataset=source, prompt="{q}", params={"size": 10})
    def bench() -> None: ...

    assert len(get_environment("sized", num_examples=3)) == 3
    assert len(get_environment("sized", params={"size": 7})) == 7
    assert asked == [3, None]


def test_parameters_that_are_not_there() -> None:
    @benchmark(name="sized", dataset=rows, prompt="{q}", params={"language": "en"})
    def bench() -> None: ...

    with pytest.raises(UsageError, match="has no parameter 'languages'") as caught:
        get_environment("sized", params={"languages": "de"})
    assert caught.value.hint == "did you mean 'language'? accepted: language"


async def test_file_parameters_choose_the_data(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"q": "mine", "target": "t"}\n')

    @benchmark(name="own", dataset="hf://org/data?split=test", prompt="{q}")
    def bench() -> None: ...

    env = get_environment("own", params={"dataset": str(path)})
    assert (await env.seed(0)).prompt == "mine"


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"prompt": "{nope}"}, "no such column; it has kind, q, target"),
        (
            {"prompt": "{q}", "target_field": "gold"},
            r"no column 'gold' \(target_field\); it has kind, q, target",
        ),
        ({"prompt": ""}, "has no prompt"),
        ({"prompt": "{q}", "requirements": ["no-such-library>=1"]}, "needs no-such-library"),
        (
            {"prompt": "{q}", "prepare_row": lambda row: {"x": row["missing"]}},
            "row 0 .* cannot be prepared",
        ),
        (
            {"prompt": "{q}", "prepare_row": lambda row: None},
            "prepare_row returned NoneType, not a dict",
        ),
        ({"prompt": "{q}", "dataset": "absent.jsonl"}, "does not exist"),
    ],
)
def test_mistakes_are_said_before_anything_is_asked(keywords: dict[str, Any], said: str) -> None:
    @benchmark(**{"name": "bad", "dataset": rows, **keywords})
    def bench() -> None: ...

    with pytest.raises(UsageError, match=said):
        get_environment("bad")


ANSWERS = [{"q": "1+1?", "answer": "2"}]


def equals_target(sample: ScorerInput) -> dict[str, Any]:
    return {"correct": sample.response == sample.target}


def through_a_helper(sample: ScorerInput) -> dict[str, Any]:
    return equals_target(sample)


def through_a_built_in(sample: ScorerInput) -> dict[str, Any]:
    return scoring.exact_match(sample)


def through_a_late_import(sample: ScorerInput) -> dict[str, Any]:
    from nemo_evaluator import numeric_match

    return numeric_match(sample)


@pytest.mark.parametrize(
    "function", [equals_target, through_a_helper, through_a_built_in, through_a_late_import]
)
def test_a_missing_target_column_is_refused(function: Any) -> None:
    benchmark(name="untargeted", dataset=lambda: ANSWERS, prompt="{q}")(function)
    with pytest.raises(UsageError, match=r"no column 'target' \(target_field\)") as caught:
        get_environment("untargeted")
    assert caught.value.hint is not None
    assert "set target_field to the column of the right answer" in caught.value.hint


async def test_a_scorer_that_ignores_the_target_needs_no_target_column() -> None:
    @benchmark(name="short", dataset=lambda: ANSWERS, prompt="{q}")
    @scorer
    def short(sample: ScorerInput) -> dict[str, Any]:
        """Never looks at the target."""
        return {"correct": len(sample.response) < 3}

    assert (await get_environment("short").verify("2", "")).reward == 1.0


def test_a_judge_prompt_that_shows_the_expected_answer_needs_the_target_column() -> None:
    def judge_prompt(seed: SeedResult, response: str) -> str:
        return f"{response} / {seed.expected_answer}"

    @benchmark(name="judged", dataset=lambda: ANSWERS, prompt="{q}", judge_prompt=judge_prompt)
    @scorer
    def judged(sample: ScorerInput) -> dict[str, Any]:
        return scoring.needs_judge(sample)

    with pytest.raises(UsageError, match="no column 'target'"):
        get_environment("judged")


def test_an_unknown_keyword_is_refused_with_a_suggestion() -> None:
    decorator = benchmark(
        name="misspelt", dataset=lambda: ANSWERS, prompt="{q}", target_feild="answer"
    )
    with pytest.raises(UsageError, match="no keyword 'target_feild'") as caught:
        decorator(equals_target)
    assert caught.value.hint is not None
    assert "did you mean 'target_field'?" in caught.value.hint
    assert "scorer_config={'target_feild': ...}" in caught.value.hint


@pytest.mark.parametrize("form", ["item", "get", "alias", "helper"])
def test_a_keyword_that_the_scorer_reads_is_a_setting(form: str) -> None:
    def read(config: dict[str, Any]) -> Any:
        return config["limit"]

    def item(sample: ScorerInput) -> Any:
        return sample.config["limit"]

    def get(sample: ScorerInput) -> Any:
        return sample.config.get("limit")

    def alias(sample: ScorerInput) -> Any:
        settings = sample.config
        return settings["limit"]

    def helper(sample: ScorerInput) -> Any:
        return read(sample.config)

    forms: dict[str, Any] = {"item": item, "get": get, "alias": alias, "helper": helper}
    function = forms[form]
    benchmark(name="limited", dataset=lambda: ANSWERS, prompt="{q}", limit=3)(function)
    assert function.environment.definition.extra == {"limit": 3}
    with pytest.raises(UsageError, match="no keyword 'limits'"):
        benchmark(name="limited", dataset=lambda: ANSWERS, prompt="{q}", limits=3)(function)


def test_an_endpoint_type_that_is_none() -> None:
    with pytest.raises(UsageError, match="endpoint_type 'chats'"):
        benchmark(name="bad", dataset=rows, endpoint_type="chats")


async def test_few_shot_examples() -> None:
    train = [{"q": f"train {i}", "target": f"a{i}", "kind": "ab"[i % 2]} for i in range(8)]

    @benchmark(name="shots", dataset=rows, prompt="Q: {q}\nA:", fewshot_dataset=lambda: train)
    def plain() -> None: ...

    assert (await get_environment("shots").seed(0)).prompt == "Q: q0\nA:"
    two = (await get_environment("shots", num_fewshot=2).seed(0)).prompt
    three = (await get_environment("shots", num_fewshot=3).seed(0)).prompt
    assert two.count("Q: train") == 2
    assert two.endswith("\n\nQ: q0\nA:")
    assert three.startswith(two.removesuffix("Q: q0\nA:"))
    assert "fewshot" not in (await get_environment("shots", num_fewshot=2).seed(0)).metadata

    @benchmark(
        name="by kind", dataset=rows, prompt="Instruction\n\n{fewshot}{q}", fewshot_dataset=lambda: train,
        fewshot_format="{q} = {target}", fewshot_by="kind",
    )  # fmt: skip
    def by_kind() -> None: ...

    env = get_environment("by kind", num_fewshot=4)
    numbers = {line for line in (await env.seed(0)).prompt.splitlines() if " = " in line}
    assert numbers == {f"train {i} = a{i}" for i in (0, 2, 4, 6)}
    assert (await env.seed(1)).prompt.startswith("Instruction\n\ntrain")
    with pytest.raises(UsageError, match=r"5 examples were asked for.* has 4 with kind 'a'"):
        await get_environment("by kind", num_fewshot=5).seed(0)


async def test_a_problem_is_never_its_own_example() -> None:
    @benchmark(name="same", dataset=rows, prompt="{q}\n{fewshot}", fewshot_dataset=rows)
    def bench() -> None: ...

    env = get_environment("same", num_fewshot=9)
    for idx in range(10):
        assert (await env.seed(idx)).prompt.count(f"q{idx}\n") == 1


def test_few_shot_without_a_source_is_refused() -> None:
    @benchmark(name="noshots", dataset=rows, prompt="{q}")
    def bench() -> None: ...

    with pytest.raises(UsageError, match="no split to take 2 few-shot examples"):
        get_environment("noshots", num_fewshot=2)


USER_FILE = """
import time
from nemo_evaluator.environments import benchmark, scorer, ScorerInput

@benchmark(name="slow", dataset=lambda: [{"q": "a", "target": "t"}], prompt="{q}")
@scorer
def slow(sample: ScorerInput) -> dict:
    time.sleep(float(sample.response))
    return {"correct": True}
"""


async def test_a_slow_scorer_moves_to_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Far above the real threshold, so that a busy machine does not make a fast call look slow.
    monkeypatch.setattr(_verdict, "SLOW_SECONDS", 0.1)
    path = tmp_path / "slow.py"
    path.write_text(USER_FILE)
    env = get_environment(str(path))
    runner = env._runner  # type: ignore[attr-defined]
    await env.verify("0", "t")
    assert not runner.in_thread
    for _ in range(2):
        assert not runner.in_thread
        await env.verify("1.2", "t")
    assert runner.in_thread
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    assert (await env.verify("0.2", "t")).reward == 1.0
    ticking.cancel()
    assert ticks > 10
    await env.close()


@pytest.mark.parametrize(
    ("seconds", "in_thread"),
    [
        pytest.param([0.006] * 100, True, id="always a little slow"),
        pytest.param(([1.0] + [0.0] * 9) * 5, True, id="very slow now and then"),
        pytest.param(([0.03] + [0.00001] * 30) * 1000, False, id="a busy machine"),
        pytest.param([60.0, *[0.00001] * 100], False, id="a machine that slept"),
    ],
)
def test_a_fast_scorer_stays_on_the_loop_of_a_busy_machine(
    seconds: list[float], in_thread: bool
) -> None:
    runner = _verdict.ScorerRunner(lambda _: {"correct": True}, "timed")
    for one in seconds:
        runner._note(one)
    assert runner.in_thread == in_thread
    runner.close()


async def test_the_scorer_fingerprint_changes_with_what_changes_verdicts(tmp_path: Path) -> None:
    helper = tmp_path / "my_helper_for_fp.py"
    bench = tmp_path / "bench.py"
    template = """
from nemo_evaluator import scoring
from nemo_evaluator.environments import benchmark, scorer
from my_helper_for_fp import right
@benchmark(name="fp_%s", dataset=lambda: [{"q": "a", "target": "t"}], prompt="{q}",
           scorer_config={"limit": %s})
@scorer
def fp(sample):
    return {"correct": right(sample) %s}
"""
    seen = {}
    for name, limit, more, help_text in (
        ("a", 1, "", "True"), ("b", 2, "", "True"), ("c", 1, "and True", "True"), ("d", 1, "", "False"),
    ):  # fmt: skip
        helper.write_text(f"def right(sample):\n    return {help_text}\n")
        sys.modules.pop("my_helper_for_fp", None)
        path = bench.with_name(f"bench_{name}.py")
        path.write_text(template % ("same", limit, more))
        seen[name] = get_environment(str(path)).scorer_fingerprint()
    assert len(set(seen.values())) == 4
    helper.write_text("def right(sample):\n    return True\n")
    again = tmp_path / "elsewhere" / "bench.py"
    again.parent.mkdir()
    assert get_environment(str(bench.with_name("bench_a.py"))).scorer_fingerprint() == seen["a"]


@pytest.mark.serial
async def test_seed_and_verify_are_cheap() -> None:
    @benchmark(name="cheap", dataset=rows, prompt="Question: {q}\nKind: {kind}")
    @scorer
    def bench(sample: ScorerInput) -> dict[str, Any]:
        return {"correct": sample.response == sample.target}

    env = get_environment("cheap")

    async def loop() -> float:
        started = time.process_time()
        for number in range(1000):
            await env.verify_answer("x", await env.seed(number % 10))
        return (time.process_time() - started) / 1000

    assert min([await loop() for _ in range(5)]) < 100e-6


def test_json_is_what_a_row_is(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps([1, 2]))

    @benchmark(name="bad", dataset=str(path), prompt="{q}")
    def bench() -> None: ...

    with pytest.raises(UsageError, match=r"row 0 of .* is a int"):
        get_environment("bad")
