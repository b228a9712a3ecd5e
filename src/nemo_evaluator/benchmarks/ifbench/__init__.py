"""IFBench: 58 kinds of checkable instruction that models were not trained on."""

from __future__ import annotations

from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks.ifbench import count, custom, form, ratio, repeat, sentence, word
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score

CHECKS = {
    **count.CHECKS,
    **custom.CHECKS,
    **form.CHECKS,
    **ratio.CHECKS,
    **repeat.CHECKS,
    **sentence.CHECKS,
    **word.CHECKS,
}


@benchmark(
    name="ifbench",
    dataset="hf://allenai/IFBench_test?split=train",
    prompt="{prompt}",
    prepare_row=prepare,
    carried=("arguments",),
    summary=summary,
    info=BenchmarkInfo(
        title="IFBench",
        group="instructions",
        size=300,
        scorer="58 instruction checkers (strict; loose beside it)",
        license="ODC-BY-1.0",
        source="https://huggingface.co/datasets/allenai/IFBench_test",
        columns=("key", "prompt", "instruction_id_list", "kwargs"),
        categories="family of the first instruction",
        published=Published(
            protocol=(
                "The prompt as it stands; strict and loose accuracy by the authors' checkers (Pyatkin et al., 2025)."
            ),
            differs=(
                "Checkers written anew from the definitions; words and sentences are counted by our own rules. "
                "On 3,420 stress answers 237 verdicts differ from a copy of the authors' checkers, nearly all because "
                "those let an answer pass that has nothing of what the instruction speaks of: no quotation, no bullet, "
                "one sentence, one line."
            ),
            comparable="nearly",
        ),
    ),
)
@scorer
def ifbench(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
