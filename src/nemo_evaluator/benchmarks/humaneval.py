"""HumanEval: complete a Python function so that its hidden tests pass, in a sandbox."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import code_sandbox_async


def prepare(row: JsonDict) -> JsonDict:
    """What the scorer needs stands under names with an underscore."""
    hidden = {"_prompt": row["prompt"], "_test": row["test"], "_entry_point": row["entry_point"]}
    return kept(row, "task_id", "entry_point") | hidden


builtin("humaneval", prepare_row=prepare)(lambda sample: code_sandbox_async(sample, sample.sandbox))
