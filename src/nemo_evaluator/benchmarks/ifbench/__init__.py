"""IFBench: 58 kinds of checkable instruction that models were not trained on."""

from nemo_evaluator.benchmarks._declared import builtin
from nemo_evaluator.benchmarks._instructions import check_all, prepare, summary
from nemo_evaluator.benchmarks.ifbench import form, prose
from nemo_evaluator.scoring import Score, ScorerInput

CHECKS = form.CHECKS | prose.CHECKS


@builtin("ifbench", prepare_row=prepare, summary=summary)
def ifbench(sample: ScorerInput) -> Score:
    """Is every instruction followed to the letter?"""
    return check_all(sample, CHECKS)
