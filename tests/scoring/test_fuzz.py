"""No answer of any kind makes a built-in scorer raise; what cannot be used is a scored zero."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pace import cpu_limit

from nemo_evaluator.benchmarks import builtin_names
from nemo_evaluator.benchmarks._self_test import self_test
from nemo_evaluator.benchmarks.bfcl import bfcl
from nemo_evaluator.environments import environment_class, get_environment
from nemo_evaluator.scoring import ScorerInput, get_scorer, run_scorer
from nemo_evaluator.scoring.code import program_of

NASTY = [
    "", " ", "\n\t \r", "\x00", "\ud800", "\udfff answer: \ud800", "\u202eAnswer: X\u202c", "1e999", "-1e-999", "9" * 5000, "1/0", "Answer: 1/0", "Answer: 1e999", "[" * 5000, '{"a":' * 3000,
    "\\boxed{" * 500, "\\boxed{}", "\\boxed{\\frac{1}{0}}", "$" * 999, "**", "Answer:", "Answer: ", "The answer is", "####", "<answer>", "</answer>", "<answer></answer>", "<think>", "</think>", "0x1F", "NaN", "Infinity",
    "Answer: \ue000", "\uf8ff", "\uf8fe or \ue001", "Answer: ١٢٣", "Answer: ²", "Answer: ½", "Answer: Ⅷ", "①", "İ" * 50, "ﬁ" * 50, "ß", "a\u0301" * 50, "{}", "null", '{"a": 1e999}', '{"a": ' + "9" * 5000 + "}",
]  # fmt: skip
SCORERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "exact_match": ("Paris", {}),
    "fuzzy_match": ("Paris", {"correct_answers": ["Paris", "12", "the City of Light"]}),
    "f1": ("Paris", {}),
    "numeric_match": ("42", {"question": "How many items are left in the shop?"}),
    "multichoice_regex": ("B", {"choices": ["Rome", "Paris", "None of these", "7"]}),
    "mcq_extract": ("B", {}),
    "answer_line": ("42", {}),
    "math": ("\\frac{1}{2}", {}),
    "json_schema": ({"type": "object"}, {}),
}


async def judge(name: str, response: str) -> dict[str, Any]:
    target, metadata = SCORERS[name]
    return await run_scorer(get_scorer(name), ScorerInput(response, target, metadata))


@pytest.mark.parametrize("name", SCORERS)
async def test_nasty_answers(name: str) -> None:
    for response in NASTY:
        score = await judge(name, response)
        if response.strip("{} ") and name == "json_schema":
            continue
        assert score["correct"] in (False, 0.0) or name == "json_schema", (name, response[:40])
        if not response.strip():
            assert score["unparsed"] is True


# All whose rows the wide mirror has and whose scorers need nothing but the answer.
BUILT_IN = [
    name
    for name in sorted(builtin_names() - {"bfcl", "xstest"})
    if self_test(name).mirror_rows and not environment_class(name).facts().needs - {"images"}
]


@pytest.mark.needs("mirror")
@pytest.mark.usefixtures("wide_mirror")
@pytest.mark.parametrize("name", BUILT_IN)
async def test_nasty_answers_to_the_problems_of_a_benchmark(name: str) -> None:
    environment = get_environment(name)
    for idx in range(0, len(environment), max(1, len(environment) // 12)):
        seed = await environment.seed(idx)
        for response in NASTY:
            assert 0 <= (await environment.verify_answer(response, seed)).reward <= 1


CALLS = [
    "f(x=" + "9" * 5000 + ")", "[f(x=1e999)]", "f(" * 400, "f(x=[" + "[" * 400, '[{"name": "f", "arguments": ' + "9" * 5000 + "}]", "f(x='\ud800')",
    "f(**{1: 2})", "f(x=10**10**10)", "f(x=-" + "-" * 3000 + "1)", "f(x=nan)", "f(x=new int[]{" + "9" * 5000 + "})", "f(x=True, x=2)", "f(x={1: {2: 3}})",
    '{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}", '{"name": "f", "arguments": {"x": 1e400}}', '{"name": ["f"], "arguments": 3}',
]  # fmt: skip


@pytest.mark.parametrize(
    "category", ["simple_python", "simple_java", "simple_javascript", "irrelevance"]
)
@pytest.mark.parametrize("kind", ["integer", "float", "array", "dict", "string", "any"])
def test_nasty_calls(category: str, kind: str) -> None:
    schema = {
        "name": "f",
        "parameters": {
            "type": "dict",
            "properties": {"x": {"type": kind, "items": {"type": "integer"}}},
            "required": ["x"],
        },
    }
    row = {"function": [schema], "category": category, "ground_truth": [{"f": {"x": [7]}}]}
    for response in [*NASTY, *CALLS]:
        score = bfcl(ScorerInput(response, "", row))
        assert category == "irrelevance" or score["correct"] is False, response[:60]


@pytest.mark.parametrize(
    "response", [*NASTY, "```python\n", "```" * 999, "def f(:", "def f(): return '\ud800'"]
)
def test_nasty_programs_are_read(response: str) -> None:
    program, _, code = program_of(
        ScorerInput(
            response, "", {"_prompt": "def f():\n", "_entry_point": "f", "_test": "assert f()"}
        )
    )
    assert isinstance(program, str) and (code.strip() or not program)


words = st.sampled_from(
    [
        "Answer: B",
        "the answer is",
        "not",
        "or",
        "A",
        "C)",
        "42",
        "1,080",
        "\\boxed{",
        "}",
        "$",
        "Paris",
        "wait, no,",
        "because",
        "maybe",
        "\n",
        ".",
        "?",
        "**",
        "<answer>",
        "</answer>",
        "<think>",
        "答案",
        "是",
        "не",
    ]
)
texts = st.one_of(
    st.text(),
    st.lists(words).map(" ".join),
    st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)


@pytest.mark.parametrize("name", [name for name in SCORERS if name != "math"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(response=texts)
async def test_arbitrary_answers(name: str, response: str) -> None:
    score = await judge(name, response)
    assert isinstance(score["correct"], bool | float)


SIZE = 1_000_000
ADVERSARIAL = {
    "claims": "the answer is ", "negations": "the answer is not B, but ", "boxes": "\\boxed{", "closed boxes": "\\boxed{1} or ", "dollars": "$", "stars": "*", "spaces": " ", "lines": "\n", "commas": "A, ",
    "digits": "1", "groups": "1,234", "ranges": "1-2 or ", "waits": "wait, no, ", "options": "A) x\n", "labels": "A or B ", "questions": "Which is it?\nA) x\n", "tasks": "Question: x\n", "names": "Ada Byron, ",
    "foreign": "Antwort ответ 答案 ", "cjk": "答", "braces": "{", "backslashes": "\\", "frac": "\\frac{1", "think": "<think>", "backticks": "`", "quotes": "'", "maybe": "maybe ", "dots": "... ", "hashes": "#",
}  # fmt: skip


@pytest.mark.serial
@pytest.mark.parametrize("name", [name for name in SCORERS if name != "json_schema"])
async def test_a_megabyte_costs_little(name: str) -> None:
    slow = {}
    for kind, piece in ADVERSARIAL.items():
        response = piece * (SIZE // len(piece))
        spent = []
        while len(spent) < 3 and min(spent, default=9.0) > cpu_limit(0.2):
            started = time.process_time()
            await judge(name, response)
            spent.append(time.process_time() - started)
        if min(spent) > cpu_limit(0.2):
            slow[kind] = round(min(spent), 2)
    assert not slow
