"""BFCL, single turn: does a model call the right functions with the right arguments, and only when one fits?"""

from collections.abc import Sequence
from typing import Final

import orjson

from nemo_evaluator.benchmarks._rows import chained, kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.bfcl.calls import Call, parse_calls
from nemo_evaluator.benchmarks.bfcl.check import mismatch
from nemo_evaluator.benchmarks.bfcl.literals import LANGUAGES
from nemo_evaluator.core.errors import SeedError
from nemo_evaluator.core.types import JsonDict, Message, SeedResult
from nemo_evaluator.datasets import MappedRows, Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, strip_reasoning

BASE: Final = "https://raw.githubusercontent.com/ShishirPatil/gorilla/main/berkeley-function-call-leaderboard/bfcl_eval/data"
CATEGORIES: Final = (
    "simple_python",
    "simple_java",
    "simple_javascript",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
_INSTRUCTION: Final = """\
You can call functions to answer the user. The functions, in JSON:

{functions}

Reply only with the calls, as a list in Python syntax with named arguments, such as
[first.function(name="value", number=3), second_function(items=["a", "b"])]
Give values as Python literals; a variable of the user's code is given by its name. If no function fits the request,
or the request lacks what a function needs, reply with [] and say why."""


def has_answers(category: str) -> bool:
    """Whether the accepted calls of a category are published; otherwise only the presence of a call counts."""
    return not category.endswith("relevance")


def dataset(categories: str | Sequence[str]) -> Rows:
    """Load the problems of some categories with their accepted calls."""
    return chained(categories, _one, "bfcl has no category", known=CATEGORIES)


def _one(category: str) -> Rows:
    """Load the problems of one category and join each with its accepted calls by position."""
    questions = open_rows(f"{BASE}/BFCL_v4_{category}.json")
    if not has_answers(category):
        return MappedRows(questions, lambda row, idx: _joined(row, [], category))
    answers = open_rows(f"{BASE}/possible_answer/BFCL_v4_{category}.json")

    def join(row: JsonDict, idx: int) -> JsonDict:
        answer = answers[idx]
        if answer["id"] != row["id"]:
            raise SeedError(f"bfcl {category}: the answer of {row['id']} is not in its place")
        return _joined(row, answer["ground_truth"], category)

    return MappedRows(questions, join)


def _joined(row: JsonDict, accepted_calls: list[JsonDict], category: str) -> JsonDict:
    return {**row, "ground_truth": accepted_calls, "category": category}


def seed(row: JsonDict, idx: int) -> SeedResult:
    """Make the problem of a row: the functions in the system message, and the request unchanged."""
    system_texts: list[str] = []
    request_turns: list[Message] = []
    for message in row["question"][0]:
        if message["role"] == "system":
            system_texts.append(message["content"])
        else:
            request_turns.append(message)
    functions = orjson.dumps(row["function"], option=orjson.OPT_INDENT_2).decode()
    system_texts.append(_INSTRUCTION.format(functions=functions))
    system_message: Message = {"role": "system", "content": "\n\n".join(system_texts)}
    return SeedResult(
        prompt=request_turns[-1]["content"],
        expected_answer=orjson.dumps(row["ground_truth"]).decode(),
        messages=[system_message, *request_turns],
        metadata={
            "source": "byob",
            "benchmark": "bfcl",
            **kept(row, "id", "category", "function", "ground_truth"),
        },
        shown=frozenset({"function", "ground_truth"}),
    )


def shared_functions(row: JsonDict) -> bytes:
    """Return the functions that a request can call; several requests may share them."""
    return orjson.dumps(row["function"])


SELF_TEST: Final = SelfTest(
    mirror_rows=1664,
    params={
        "categories": [
            "simple_python",
            "simple_java",
            "simple_javascript",
            "multiple",
            "parallel",
            "parallel_multiple",
            "irrelevance",
            "live_simple",
            "live_parallel",
        ]
    },
)


@benchmark(
    "bfcl",
    dataset=dataset,
    seed_fn=seed,
    params={"categories": list(CATEGORIES)},
    cluster=shared_functions,
    info=BenchmarkInfo(
        title="BFCL (single turn)",
        group="tools",
        size=3641,
        scorer="calls parsed and compared with the accepted ones",
        license="Apache-2.0",
        source=(
            "https://github.com/ShishirPatil/gorilla/tree/main/berkeley-function-call-leaderboard"
        ),
        columns=("id", "question", "function", "ground_truth"),
        categories="category (13)",
        params={
            "categories": (
                "one of, or a list of: simple_python simple_java simple_javascript multiple "
                "parallel parallel_multiple irrelevance live_simple live_multiple "
                "live_parallel live_parallel_multiple live_irrelevance live_relevance"
            ),
        },
        published=Published(
            protocol=(
                "Functions in the system message or as native tools; calls compared by the AST "
                "checker of the leaderboard."
            ),
            differs=(
                "The functions are in a prompt of our own. The single-turn categories only, "
                "so no overall score. Calls are compared as officially; besides, Python "
                "literals count for Java and JavaScript too (they are asked for), string "
                "arrays and `add(...)` lists of Java are read, which the official converter "
                "loses, arguments that the accepted call has and the schema lacks are allowed, "
                "and a call may be in a code block, in JSON or in prose."
            ),
            comparable="nearly, category by category, with the leaderboard's prompt mode",
        ),
    ),
)
def bfcl(sample: ScorerInput) -> Score:
    """Are the calls of the response the accepted ones? Irrelevance: is nothing called? Relevance: is anything?"""
    calls = parse_calls(strip_reasoning(sample.response), sample.metadata["function"])
    category = sample.metadata["category"]
    if not has_answers(category):
        return _presence_score(calls or [], category)
    if calls is None:
        return {"correct": False, "extracted": None, "unparsed": True}
    first_mismatch = mismatch(
        calls,
        sample.metadata["ground_truth"],
        sample.metadata["function"],
        language=LANGUAGES.get(category),
    )
    score: Score = {
        "correct": first_mismatch is None,
        "extracted": _shown(calls),
        "calls": len(calls),
    }
    if first_mismatch is not None:
        score["mismatch"] = first_mismatch
    return score


def _presence_score(calls: list[Call], category: str) -> Score:
    """Score a category without accepted calls: relevance needs any call, irrelevance none."""
    calls_nothing = not calls
    return {
        "correct": calls_nothing == category.endswith("irrelevance"),
        "extracted": _shown(calls),
        "calls": len(calls),
    }


def _shown(calls: Sequence[Call]) -> str:
    """Write calls as Python source, up to 500 characters."""
    call_texts: list[str] = []
    for call in calls:
        arguments = [f"{key}={value!r}" for key, value in call.arguments.items()]
        call_texts.append(f"{call.name}({', '.join(arguments)})")
    return f"[{', '.join(call_texts)}]"[:500]
