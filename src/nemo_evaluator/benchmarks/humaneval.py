"""HumanEval: complete a Python function so that its hidden tests pass, in a sandbox."""

from typing import Final

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput, code_sandbox_async


def prepare(row: JsonDict) -> JsonDict:
    """Select the columns for the prompt and the scorer; those of the scorer begin with an underscore."""
    hidden = {"_prompt": row["prompt"], "_test": row["test"], "_entry_point": row["entry_point"]}
    return kept(row, "task_id", "entry_point") | hidden


SELF_TEST: Final = SelfTest(mirror_rows=164)


@benchmark(
    "humaneval",
    dataset="hf://openai/openai_humaneval?split=test",
    prepare_row=prepare,
    prompt=(
        "Implement the following Python function. Reply with the whole function in one "
        "```python code block and nothing else.\n"
        "\n"
        "```python\n"
        "{_prompt}```"
    ),
    target_field="entry_point",
    carried=("_test", "_entry_point"),
    cluster=Independent("each function was written on its own"),
    info=BenchmarkInfo(
        title="HumanEval",
        group="code",
        size=164,
        scorer="code_sandbox",
        needs=("sandbox",),
        license="MIT",
        source="https://huggingface.co/datasets/openai/openai_humaneval",
        columns=("task_id", "prompt", "entry_point", "test"),
        published=Published(
            protocol=(
                "The function's head is completed; pass@1 (Chen et al., 2021: pass@k of 200 "
                "samples)."
            ),
            differs=(
                "A chat model is asked for the whole function in a code block; its tests run "
                "unchanged."
            ),
            comparable="nearly, with reports on chat models",
        ),
    ),
)
async def humaneval(sample: ScorerInput) -> Score:
    """Do the tests pass?"""
    return await code_sandbox_async(sample, sample.sandbox)
