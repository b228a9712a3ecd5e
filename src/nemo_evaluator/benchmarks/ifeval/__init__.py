"""IFEval: prompts with instructions whose following can be checked by a program."""

from __future__ import annotations

from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks.ifeval.checks import CHECKS
from nemo_evaluator.environments.custom import BenchmarkInfo, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score


@benchmark(
    name="ifeval",
    dataset="hf://google/IFEval?split=train",
    prompt="{prompt}",
    prepare_row=prepare,
    carried=("arguments",),
    summary=summary,
    info=BenchmarkInfo(
        title="IFEval",
        group="instructions",
        size=541,
        scorer="25 instruction checkers (strict; loose beside it)",
        license="Apache-2.0 (hub), CC-BY-4.0 (authors' repository)",
        source="https://huggingface.co/datasets/google/IFEval",
        columns=("key", "prompt", "instruction_id_list", "kwargs"),
        categories="family of the first instruction",
    ),
)
@scorer
def ifeval(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
