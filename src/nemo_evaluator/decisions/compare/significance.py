"""The additional significance test of a comparison: McNemar's, the sign test or a permutation test."""

from dataclasses import replace

import numpy as np

from nemo_evaluator.decisions.compare.options import CompareOptions
from nemo_evaluator.decisions.compare.report import N_PERMUTATIONS
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.statistics import PairedTest, mcnemar_test, permutation_test, sign_test
from nemo_evaluator.statistics.groups import Ints, is_binary


def significance_test(pairing: Pairing, options: CompareOptions) -> tuple[PairedTest, str]:
    """The requested test, or the one that fits the data.

    Args:
        pairing: The paired problems.
        options: How to compare.

    Returns:
        The test, whose effect is negative when the candidate is worse; and why it was chosen.
    """
    clusters = pairing.clusters
    if clusters is not None:
        return _cluster_test(pairing, clusters, options), "problems belong to clusters"
    if options.test != "auto":
        reason = "asked for"
        test_name = options.test
    elif is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards):
        reason = "every problem is right or wrong on both sides"
        test_name = "mcnemar"
    else:
        reason = "rewards are means or fractions"
        test_name = "permutation"
    gain = options.better * pairing.differences
    if test_name == "mcnemar":
        return _flip_test(pairing, options), reason
    if test_name == "sign":
        return sign_test(gain), reason
    test = permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed)
    return test, reason


def _cluster_test(pairing: Pairing, clusters: Ints, options: CompareOptions) -> PairedTest:
    """The permutation test of the clusters' sums: under the null hypothesis, each cluster's sign is random."""
    gain = options.better * pairing.differences
    sums = np.bincount(clusters, weights=gain).astype(np.float64)
    test = permutation_test(sums, n_permutations=N_PERMUTATIONS, seed=options.seed)
    return replace(test, method=f"cluster_{test.method}", effect=float(gain.mean()), n=len(pairing))


def _flip_test(pairing: Pairing, options: CompareOptions) -> PairedTest:
    """McNemar's test on the problems that are right on one side only."""
    right_before = pairing.baseline.rewards > options.correct_above
    right_after = pairing.candidate.rewards > options.correct_above
    only_before = right_before & ~right_after
    only_after = right_after & ~right_before
    lost = int(only_before.sum())
    won = int(only_after.sum())
    if options.better > 0:
        return mcnemar_test(worse=lost, better=won, n=len(pairing))
    # A lower reward is better, so a problem above the threshold is a bad one.
    return mcnemar_test(worse=won, better=lost, n=len(pairing))
