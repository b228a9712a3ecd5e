"""IFBench: 58 kinds of checkable instruction that models were not trained on."""

from typing import Final

from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks.ifbench import form, prose
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
from nemo_evaluator.scoring import Score, ScorerInput

CHECKS = form.CHECKS | prose.CHECKS


SELF_TEST: Final = SelfTest(mirror_rows=300, has_target=False)


@benchmark(
    "ifbench",
    dataset="hf://allenai/IFBench_test?split=train",
    prepare_row=prepare,
    prompt="{prompt}",
    carried=("arguments",),
    summary=summary,
    cluster=Independent("each prompt was written on its own"),
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
                "The prompt as it stands; strict and loose accuracy by the authors' checkers "
                "(Pyatkin et al., 2025)."
            ),
            differs=(
                "Our own checkers, written from the definitions; words and sentences are counted "
                "by our own rules. On 3,420 stress answers 237 verdicts differ from a copy of "
                "the authors' checkers, nearly all because those let an answer pass that has "
                "nothing that the instruction asks for: no quotation, no bullet, one "
                "sentence, one line."
            ),
            comparable="nearly",
        ),
    ),
)
def ifbench(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
