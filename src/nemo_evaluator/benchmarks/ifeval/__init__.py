"""IFEval: prompts with instructions whose following can be checked by a program."""

from __future__ import annotations

from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks.ifeval.checks import CHECKS
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
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
        published=Published(
            protocol=(
                "The prompt as it stands; strict and loose accuracy, by prompt and by instruction (Zhou et al., 2023)."
            ),
            differs=(
                "Verdicts follow the official checker (on 11,676 stress answers 18 differ). Known "
                "differences: languages are told by py3langid, not langdetect, whose verdicts change from "
                "run to run; a sign other than a letter is counted as asked, where the official checker "
                "draws a letter at random; Punkt's trained table is replaced by short lists, which moves "
                "0.8 % of sentence counts by one; reasoning blocks are not part of the answer."
            ),
            comparable="yes",
        ),
    ),
)
@scorer
def ifeval(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
