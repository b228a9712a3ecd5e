"""BFCL: every accepted call is accepted in every syntax, and five kinds of mutation are rejected."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks import bfcl
from nemo_evaluator.benchmarks.bfcl.calls import Call, parse_calls
from nemo_evaluator.benchmarks.bfcl.check import mismatch
from nemo_evaluator.datasets.mirror import MirrorEntry, write_index
from nemo_evaluator.environments import get_environment
from nemo_evaluator.scoring import ScorerInput

FUNCTIONS = [
    {
        "name": "geo.area",
        "parameters": {
            "type": "dict",
            "properties": {
                "base": {"type": "integer"},
                "height": {"type": "float"},
                "unit": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "flag": {"type": "boolean"},
            },
            "required": ["base"],
        },
    }
]
ACCEPTED = [
    {
        "geo.area": {
            "base": [10],
            "height": [5.5, ""],
            "unit": ["square metres", ""],
            "tags": [["a", "b"], ""],
        }
    }
]


@pytest.mark.parametrize(
    "response",
    [
        '[geo.area(base=10, unit="Square-Metres")]',
        "geo.area(base=10)",
        "geo.area(base=5+5, height=11/2)",
        'Sure!\n```python\n[geo.area(base=10, tags=["a", "b"])]\n```\nDone.',
        "I will call [geo.area(base=10, height=5.5)] now.",
        '{"name": "geo.area", "arguments": {"base": 10}}',
        '[{"name": "geo.area", "parameters": {"base": 10}}]',
        '[{"geo.area": {"base": 10}}]',
        '[{"type": "function", "function": {"name": "geo.area", "arguments": "{\\"base\\": 10}"}}]',
        '<tool_call>{"name": "geo.area", "arguments": {"base": 10}}</tool_call>',
    ],
)
def test_the_same_call_in_many_forms(response: str) -> None:
    calls = parse_calls(response, FUNCTIONS)
    assert calls is not None
    assert mismatch(calls, ACCEPTED, FUNCTIONS) is None


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ("geo.volume(base=10)", "geo.volume is called"),
        ("geo.area(height=5.5)", "base is missing"),
        ("geo.area(base=10, colour='red')", "colour is not asked for"),
        ("geo.area(base=11)", "base is 11"),
        ("geo.area(base='10')", "base is '10'"),
        ("geo.area(base=10.0)", "base is 10.0"),
        ("geo.area(base=True)", "base is True"),
        ("geo.area(base=10, tags=['b', 'a'])", "tags is"),
        ("geo.area(base=10, flag=True)", "flag is not asked for"),
        ("geo.area(10, 5.5)", "base is missing"),
        ("geo.area(5.5, base=10)", "argument 1 is not asked for"),
        ("geo.area(base=10, tags=('a', 'b'))", "tags is"),
        (f"geo.area(base=10, height={10**400})", "height is 1000"),
        (f"geo.area(base={10**30})", "base is 1000"),
        ("[geo.area(base=10), geo.area(base=10)]", "2 calls instead of 1"),
    ],
)
def test_what_is_wrong_is_said(response: str, said: str) -> None:
    calls = parse_calls(response, FUNCTIONS)
    assert calls is not None
    assert said in (mismatch(calls, ACCEPTED, FUNCTIONS) or "")


@pytest.mark.parametrize(
    "response", ["", "I cannot help with that.", "The area is 10 (ten).", "x = 3", "f(**a)"]
)
def test_prose_is_no_call(response: str) -> None:
    assert parse_calls(response, FUNCTIONS) is None


def test_names_that_python_reserves_and_variables_of_other_languages() -> None:
    calls = parse_calls("[query(from=1, to=-2.5, active=true, owner=my.variable, x=null)]", [])
    assert calls == [
        Call("query", {"from": 1, "to": -2.5, "active": True, "owner": "my.variable", "x": None})
    ]


JAVA = {"n": "long", "f": "float", "d": "double", "ok": "boolean", "s": "String", "v": "any"}
PROPERTIES: dict[str, Any] = {key: {"type": kind} for key, kind in JAVA.items()} | {
    "a": {"type": "Array", "items": {"type": "integer"}},
    "l": {"type": "ArrayList", "items": {"type": "String"}},
    "m": {"type": "HashMap"},
    "xs": {"type": "array", "items": {"type": "float"}},
    "o": {"type": "dict"},
}
SOURCE = [
    {"name": "Api.run", "parameters": {"type": "dict", "properties": PROPERTIES, "required": []}}
]


@pytest.mark.parametrize(
    ("language", "argument", "accepted", "right"),
    [
        ("java", "n=100L", [100], True), ("java", "n=100", [100], True), ("java", "n=101L", [100], False),
        ("java", "f=2.5f", [2.5], True), ("java", "d=2.5f", [2.5], False), ("java", "d=1e3", [1000.0], True),
        ("java", "ok=true", [True], True), ("java", 'ok="true"', [True], True), ("java", "s='x y'", ["X-Y"], True),
        ("java", "a=new int[]{1, 2}", [[1, 2]], True), ("java", "a=new int[] {2, 1}", [[1, 2]], False),
        ("java", "a=myArray", ["myArray"], True), ("java", "a=MYARRAY", ["myArray"], False),
        ("java", 'l=new ArrayList<>(Arrays.asList("a, b", "c"))', [["a, b", "c"]], True),
        ("java", 'l=new ArrayList<String>() {{ add("a"); add("c"); }}', [["a", "c"]], True),
        ("java", r'l=new ArrayList<>(Arrays.asList("a\"(", "c"))', [['a\\"(', "c"]], True),
        ("java", "l=new ArrayList<>()", [[]], True), ("java", 'l="new ArrayList<>()"', [[]], True),
        ("java", 'm=new HashMap<String, Object>() {{ put("k", 1); put("t", "x"); }}', [{"k": [1], "t": ["x"]}], True),
        ("java", 'm=new HashMap<>() {{ put("k", 2); }}', [{"k": [1]}], False),
        ("java", "v=new Point(1, 2)", ["new Point(1,2)"], True), ("java", "v=null", ["null"], True),
        ("java", "v=42", ["42"], True), ("java", "100L", [100], False),
        ("javascript", "xs=[1, 2.5]", [[1.0, 2.5]], True), ("javascript", "xs=new Array(1, 2)", [[1.0, 2.0]], True),
        ("javascript", "o={key: 'v', \"n\": 3}", [{"key": ["v"], "n": [3]}], True),
        ("javascript", "o={a: {b: [1, 2]}}", [{"a": {"b": [[1, 2]]}}], True),
        ("javascript", "o={}", [{}], True), ("javascript", "v=(x) => x + 1", ["(x) => x + 1"], True),
        ("javascript", "v=function(a, b) { return a; }", ["function(a, b) { return a; }"], True),
    ],
)  # fmt: skip
def test_literals_of_other_languages(
    language: str, argument: str, accepted: list[Any], right: bool
) -> None:
    calls = parse_calls(f"[Api.run({argument})]", SOURCE) or []
    wanted = [{"Api.run": {argument.partition("=")[0]: accepted}}]
    assert (bool(calls) and mismatch(calls, wanted, SOURCE, language) is None) is right


@pytest.mark.parametrize(
    "response",
    [
        f"geo.area(base={'9' * 4000})", f"geo.area(base={'9' * 9000})", f'{{"geo.area": {{"base": {"9" * 400}}}}}',
        "geo.area(base={[1]: 2})", "geo.area(base={(1, 2): 3, **x})", "geo.area(base=" + "-" * 900 + "1)",
        "geo.area(base=" + "[" * 150 + "]" * 150 + ")", '{"geo.area": {"base": ' + "[" * 300 + "]" * 300 + "}}",
        "geo.area(base=1e999)", "geo.area(base=10**10**10)", "geo.area(base='\ud800')", "\x00", " ",
        "geo.area(base=1/0)", "<tool_call>" * 9000, "[geo.area(" * 4000, "geo.area(base=1)\n" * 9000, "`" * 30000,
    ],
)  # fmt: skip
def test_no_answer_raises_or_takes_long(response: str) -> None:
    metadata = {"category": "simple_python", "function": FUNCTIONS, "ground_truth": ACCEPTED}
    for category in ("simple_python", "simple_java", "simple_javascript", "irrelevance"):
        started = time.process_time()
        bfcl.bfcl(ScorerInput(response, "", metadata | {"category": category}))
        assert time.process_time() - started < 1.0


def first(values: list[Any]) -> Any:
    """The first accepted value that is given at all."""
    return next((value for value in values if value != ""), "")


def plain(value: Any) -> Any:
    """An accepted value without the lists of alternatives inside its objects."""
    if isinstance(value, dict):
        picked = {
            key: first(options) if isinstance(options, list) else options
            for key, options in value.items()
        }
        return {key: plain(item) for key, item in picked.items() if item != ""}
    return [plain(item) for item in value] if isinstance(value, list) else value


def truth(accepted: list[dict[str, Any]]) -> list[Call]:
    calls = []
    for entry in accepted:
        ((name, arguments),) = entry.items()
        given = {
            key: plain(first(values)) for key, values in arguments.items() if first(values) != ""
        }
        calls.append(Call(name, given))
    return calls


def as_python(calls: list[Call]) -> str:
    texts = (
        f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"
        for call in calls
    )
    return f"[{', '.join(texts)}]"


def as_json(calls: list[Call]) -> str:
    return json.dumps([{"name": call.name, "arguments": call.arguments} for call in calls])


def mutations(calls: list[Call], row: dict[str, Any]) -> Iterator[tuple[str, list[Call]]]:
    """Wrong function, missing argument, unknown argument, wrong value, wrong number of calls."""
    schemas = {function["name"]: function["parameters"] for function in row["function"]}
    accepted = {name: values for entry in row["ground_truth"] for name, values in entry.items()}
    renamed = copy.deepcopy(calls)
    renamed[0].name += "_other"
    yield "name", renamed
    call = calls[0]
    required = [
        key
        for key in schemas[call.name].get("required", [])
        if key in call.arguments and accepted[call.name][key]
    ]
    if required:
        missing = copy.deepcopy(calls)
        del missing[0].arguments[required[0]]
        yield "missing", missing
        wrong = copy.deepcopy(calls)
        wrong[0].arguments[required[0]] = "a value that nobody accepts"
        yield "value", wrong
    more = copy.deepcopy(calls)
    more[0].arguments["an_unknown_argument"] = 1
    yield "unknown", more
    yield "count", [*calls, copy.deepcopy(calls[0])]


@pytest.mark.needs("mirror")
async def test_every_accepted_call_and_no_mutation(
    full_mirror: Path, bfcl_categories: list[str]
) -> None:
    env = get_environment(
        "bfcl", params={"categories": [c for c in bfcl_categories if c != "irrelevance"]}
    )
    kinds: dict[str, int] = {}
    for idx in range(len(env)):
        seed = await env.seed(idx)
        calls = truth(seed.metadata["ground_truth"])
        for response in (as_python(calls), as_json(calls), as_python(list(reversed(calls)))):
            verdict = await env.verify_answer(response, seed)
            assert verdict.reward == 1.0, (seed.metadata["id"], verdict.scoring_details, response)
        for kind, mutated in mutations(calls, seed.metadata):
            verdict = await env.verify_answer(as_json(mutated), seed)
            assert verdict.reward == 0.0, (kind, seed.metadata["id"])
            assert verdict.scoring_details.get("mismatch")
            kinds[kind] = kinds.get(kind, 0) + 1
    assert len(kinds) == 5
    assert min(kinds.values()) > 1300


@pytest.mark.needs("mirror")
async def test_where_no_function_fits_nothing_must_be_called(full_mirror: Path) -> None:
    env = get_environment("bfcl", params={"categories": "irrelevance"})
    for idx in range(len(env)):
        seed = await env.seed(idx)
        name = seed.metadata["function"][0]["name"]
        assert (await env.verify_answer("[] None of the functions fits.", seed)).reward == 1.0
        assert (await env.verify_answer("I need more information.", seed)).reward == 1.0
        assert (await env.verify_answer(f"[{name}(x=1)]", seed)).reward == 0.0


async def test_where_a_function_fits_something_must_be_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {
        "id": "live_relevance_0",
        "question": [[{"role": "user", "content": "Go"}]],
        "function": FUNCTIONS,
    }
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    write_index(
        tmp_path, [MirrorEntry(f"{bfcl.BASE}/BFCL_v4_live_relevance.json", "test", "rows.jsonl", 1)]
    )
    monkeypatch.setenv("NEL_DATA_MIRROR", str(tmp_path))
    env = get_environment("bfcl", params={"categories": "live_relevance"})
    seed = await env.seed(0)
    assert (await env.verify_answer("[geo.area(base=1)]", seed)).reward == 1.0
    assert (await env.verify_answer("[]", seed)).reward == 0.0
    assert (await env.verify_answer("No.", seed)).reward == 0.0
