"""MBPP: short Python tasks, each with three assertions, run in a sandbox."""

import re
from typing import Any, Final

from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, code_sandbox_async

_CALL = re.compile(
    r"assert\s+(?:not\s+)?\(*(?:\w+\.)*(?:(?:set|sorted|list|tuple|round|len|abs|str|int|float|isclose)\()*(\w+)\s*\("
)


def prepare(row: JsonDict) -> JsonDict:
    """Unify the rows of both versions of the dataset: the text, the tests and the code that must run before them."""
    tests = row["test_list"]
    setup_code: Any = row.get("test_setup_code") or "\n".join(row.get("test_imports") or [])
    # The name of the function that the tests call.
    entry_point = ""
    call_match = _CALL.search(tests[0])
    if call_match:
        entry_point = call_match[1]
    return {
        "task_id": row["task_id"],
        "text": row.get("text") or row.get("prompt"),
        "tests": "\n".join(tests),
        "solution": row["code"].replace("\r\n", "\n").strip(),
        "_test": "\n".join([setup_code, *tests]).replace("\r\n", "\n"),
        "entry_point": entry_point,
        "_entry_point": entry_point,
    }


PROMPT: Final = (
    "{fewshot}{text}\n"
    "Your code should pass these tests:\n"
    "\n"
    "{tests}\n"
    "\n"
    "Reply with the code in one ```python code block and nothing else."
)
CARRIED: Final = ("solution", "_test", "_entry_point")
EXAMPLE: Final = (
    "{text}\nYour code should pass these tests:\n\n{tests}\n\n```python\n{solution}\n```"
)
INFO: Final = BenchmarkInfo(
    title="MBPP",
    group="code",
    size=500,
    scorer="code_sandbox",
    needs=("sandbox",),
    license="CC-BY-4.0",
    source="https://huggingface.co/datasets/google-research-datasets/mbpp",
    columns=(
        "task_id",
        "text or prompt",
        "code",
        "test_list",
        "test_setup_code or test_imports",
    ),
    published=Published(
        protocol=(
            "3 examples with their tests, code generated between marks; pass@1 (Austin et "
            "al., 2021)."
        ),
        differs=(
            "No examples (`fewshot: 3` takes the published ones), the tests are in the prompt."
        ),
        comparable="nearly with `fewshot: 3`",
    ),
)
SELF_TEST: Final = SelfTest(mirror_rows=500)


@benchmark(
    "mbpp",
    dataset="hf://google-research-datasets/mbpp?config=full&split=test",
    prepare_row=prepare,
    prompt=PROMPT,
    target_field="entry_point",
    carried=CARRIED,
    fewshot_split="prompt",
    fewshot_format=EXAMPLE,
    cluster=Independent("each task was written on its own"),
    info=INFO,
)
async def mbpp(sample: ScorerInput) -> Score:
    """Do the assertions hold?"""
    return await code_sandbox_async(sample, sample.sandbox)
