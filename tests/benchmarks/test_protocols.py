"""Published protocols: every built-in says how it compares, and some can be asked as published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks import bbh, builtin_names
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.environments import BenchmarkEnvironment, environment_class, get_environment


@pytest.mark.parametrize("name", sorted(builtin_names()))
def test_every_benchmark_says_how_it_compares_with_published_scores(name: str) -> None:
    environment = environment_class(name)
    assert issubclass(environment, BenchmarkEnvironment)
    info = environment.definition.info
    assert info.published is not None
    assert info.published.comparable.split()[0].strip(",;:") in {"yes", "nearly", "no"}
    assert info.published.protocol.endswith(".")
    assert info.published.differs.endswith(".")
    for protocol in environment.definition.protocols:
        assert f"`{protocol}`" in info.params["protocol"]
        assert f"`protocol: {protocol}`" in info.published.comparable


@pytest.mark.needs("mirror")
async def test_gsm8k_with_the_eight_examples_of_the_paper(full_mirror: Path) -> None:
    env = get_environment("gsm8k", num_examples=2, params={"protocol": "cot_8shot"})
    seed = await env.seed(0)
    assert seed.prompt.startswith("Q: There are 15 trees in the grove.")
    assert seed.prompt.count("The answer is ") == 8
    assert (
        "So she has 23 - 15 dollars left. 23 - 15 is 8. The answer is 8.\n\nQ: Janet" in seed.prompt
    )
    assert seed.prompt.endswith("\nA:")
    plain = get_environment("gsm8k", num_examples=2)
    assert (await plain.seed(0)).prompt.startswith("Solve the following")
    assert (await env.verify_answer("Janet sells 9. The answer is 18.", seed)).reward == 1.0
    fewer = get_environment(
        "gsm8k", num_examples=1, num_fewshot=1, params={"protocol": "cot_8shot"}
    )
    assert (await fewer.seed(0)).prompt.count("The answer is ") == 1


def pro_row(number: int, **more: Any) -> dict[str, Any]:
    options = ["one", " two", "N/A"]
    row = {
        "question_id": number,
        "question": f"Q{number}?",
        "options": options,
        "answer": "B",
        "category": "law",
    }
    return {**row, "cot_content": "", **more}


async def test_mmlu_pro_with_the_worked_rows_of_the_category(mirrored: Any) -> None:
    worked = "A: Let's think step by step. It is two. The answer is (B)."
    mirrored("TIGER-Lab/MMLU-Pro", [pro_row(1)])
    rows = [pro_row(n, cot_content=worked) for n in range(10, 16)]
    mirrored("TIGER-Lab/MMLU-Pro", [pro_row(9, category="art"), *rows], "validation")
    prompt = (await get_environment("mmlu_pro", params={"protocol": "cot_5shot"}).seed(0)).prompt
    assert "(with answers) about law. Think step by step" in prompt
    assert [prompt.index(f"Q{n}?") for n in range(10, 15)] == sorted(
        prompt.index(f"Q{n}?") for n in range(10, 15)
    )
    assert "Q15?" not in prompt
    assert (
        "Options:\nA. one\nB. two\nAnswer: Let's think step by step. It is two. The answer is (B).\n\n"
        in prompt
    )
    assert prompt.endswith(
        "Question:\nQ1?\nOptions:\nA. one\nB. two\nAnswer: Let's think step by step."
    )


async def test_bbh_with_the_worked_examples_of_the_task(mirrored: Any) -> None:
    mirrored(
        "lukaemon/bbh", [{"input": "not True is", "target": "False"}], config="boolean_expressions"
    )
    worked = {
        "dataset_name": "boolean_expressions",
        "chain_of_thought_prompt": "Evaluate.\n\nQ: a\nA: b. So the answer is c.\n",
    }
    mirrored("Joschka/big_bench_hard", [worked], "few_shot_prompts", "few_shot_prompts")
    params = {"tasks": "boolean_expressions", "protocol": bbh.COT}
    env = get_environment("bbh", params=params)
    seed = await env.seed(0)
    assert seed.prompt == (
        "Evaluate.\n\nQ: a\nA: b. So the answer is c.\n\nQ: not True is\nA: Let's think step by step."
    )
    assert (
        await env.verify_answer("not True = False. So the answer is False.", seed)
    ).reward == 1.0


def test_an_unknown_protocol_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="has no protocol 'cot_8shots'") as refused:
        get_environment("gsm8k", params={"protocol": "cot_8shots"})
    assert "did you mean 'cot_8shot'? it has: default, cot_8shot" in str(refused.value.hint)
    with pytest.raises(UsageError, match="has no parameter 'protocol'"):
        get_environment("mmlu", params={"protocol": "x"})


@pytest.mark.needs("mirror")
async def test_a_protocol_is_part_of_what_is_asked_and_scored(full_mirror: Path) -> None:
    plain, cot = (
        get_environment("gsm8k", num_examples=1, params=params)
        for params in ({}, {"protocol": "cot_8shot"})
    )
    assert plain.scorer_fingerprint() != cot.scorer_fingerprint()
    assert (await plain.seed(0)).prompt != (await cot.seed(0)).prompt
