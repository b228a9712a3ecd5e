"""The additional significance test of a comparison: McNemar's, the sign test or a permutation test."""

from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.compare.report import N_PERMUTATIONS
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.statistics import PairedTest, mcnemar_test, permutation_test, sign_test
from nemo_evaluator.statistics.groups import is_binary


def significance_test(pairing: Pairing, options: CompareOptions) -> tuple[PairedTest, str]:
    """The requested test, or the one that fits the data.

    Args:
        pairing: The paired problems.
        options: How to compare.

    Returns:
        The test, whose effect is negative when the candidate is worse; and why it was chosen.
    """
    gain = options.better * pairing.differences
    requested = options.test
    if requested == "sign":
        return sign_test(gain), "asked for"
    if requested == "mcnemar":
        return _flip_test(pairing, options), "asked for"
    if requested == "permutation":
        return permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed), "asked for"
    if is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards):
        return _flip_test(pairing, options), "every problem is right or wrong on both sides"
    test = permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed)
    return test, "rewards are means or fractions"


def _flip_test(pairing: Pairing, options: CompareOptions) -> PairedTest:
    """McNemar's test on the problems that are right on one side only."""
    right_before = pairing.baseline.rewards > options.correct_above
    right_after = pairing.candidate.rewards > options.correct_above
    lost = int((right_before & ~right_after).sum())
    won = int((~right_before & right_after).sum())
    if options.better > 0:
        return mcnemar_test(worse=lost, better=won, n=len(pairing))
    return mcnemar_test(worse=won, better=lost, n=len(pairing))
