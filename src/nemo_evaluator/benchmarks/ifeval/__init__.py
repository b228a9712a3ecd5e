"""IFEval: prompts with instructions whose following can be checked by a program."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks.ifeval.checks import CHECKS
from nemo_evaluator.scoring import Score, ScorerInput


@builtin("ifeval", prepare_row=prepare, summary=summary)
def ifeval(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
