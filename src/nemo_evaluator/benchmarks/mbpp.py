"""MBPP: short Python tasks, each with three assertions, run in a sandbox."""

import re
from typing import Any

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import code_sandbox_async

_CALL = re.compile(
    r"assert\s+(?:not\s+)?\(*(?:\w+\.)*(?:(?:set|sorted|list|tuple|round|len|abs|str|int|float|isclose)\()*(\w+)\s*\("
)


def prepare(row: JsonDict) -> JsonDict:
    """Both forms of the dataset in one: text, tests, and what must run before them."""
    tests = row["test_list"]
    setup: Any = row.get("test_setup_code") or "\n".join(row.get("test_imports") or [])
    called = _CALL.search(tests[0])
    return {
        "task_id": row["task_id"],
        "text": row.get("text") or row.get("prompt"),
        "tests": "\n".join(tests),
        "solution": row["code"].replace("\r\n", "\n").strip(),
        "_test": "\n".join([setup, *tests]).replace("\r\n", "\n"),
        **dict.fromkeys(("entry_point", "_entry_point"), called[1] if called else ""),
    }


for _name in ("mbpp", "mbpp_sanitized"):
    builtin(_name, prepare_row=prepare)(lambda sample: code_sandbox_async(sample, sample.sandbox))
