"""Pure statistics on columns of numbers: intervals, pass@k, paired tests, multiplicity, sequential rules, power."""

from nemo_evaluator.metrics.bootstrap import bca_interval, bootstrap_ci, studentised_interval
from nemo_evaluator.metrics.difference import Difference, mean_difference, paired_difference, unpaired_difference
from nemo_evaluator.metrics.groups import by_problem, is_fractional
from nemo_evaluator.metrics.headline import (
    breakdowns,
    category_breakdown,
    category_scores,
    headline_score_metrics,
    headline_scores,
    sample_level_ci,
    score,
    scorer_score,
    summary_scores,
)
from nemo_evaluator.metrics.intervals import (
    Interval,
    beta_binomial,
    clopper_pearson,
    cluster_t,
    cluster_wilson,
    mean_interval,
    t_interval,
    wilson,
    wilson_modified,
)
from nemo_evaluator.metrics.missing import MissingBounds, missing_bounds
from nemo_evaluator.metrics.multiplicity import Correction, adjust, benjamini_hochberg, holm
from nemo_evaluator.metrics.paired import PairedTest, mcnemar_test, permutation_test, sign_test
from nemo_evaluator.metrics.passk import pass_at_k, pass_hat_k, pass_intervals, useful_ks
from nemo_evaluator.metrics.power import Spread, detectable_effect, paired_power, problems_needed
from nemo_evaluator.metrics.sequential import MeanSequence
from nemo_evaluator.metrics.spending import (
    ANYTIME,
    ENDED,
    PLANNED,
    STOPPED,
    Reading,
    Spending,
    joint_spending,
    spending_of,
)
from nemo_evaluator.metrics.stop_rule import Baseline, StopRule
from nemo_evaluator.metrics.variance import VarianceComponents, variance_components

__all__ = [
    "ANYTIME",
    "ENDED",
    "PLANNED",
    "STOPPED",
    "Baseline",
    "Correction",
    "Difference",
    "Interval",
    "MeanSequence",
    "MissingBounds",
    "PairedTest",
    "Reading",
    "Spending",
    "Spread",
    "StopRule",
    "VarianceComponents",
    "adjust",
    "bca_interval",
    "benjamini_hochberg",
    "beta_binomial",
    "bootstrap_ci",
    "breakdowns",
    "by_problem",
    "category_breakdown",
    "category_scores",
    "clopper_pearson",
    "cluster_t",
    "cluster_wilson",
    "detectable_effect",
    "headline_score_metrics",
    "headline_scores",
    "holm",
    "is_fractional",
    "joint_spending",
    "mcnemar_test",
    "mean_difference",
    "mean_interval",
    "missing_bounds",
    "paired_difference",
    "paired_power",
    "pass_at_k",
    "pass_hat_k",
    "pass_intervals",
    "permutation_test",
    "problems_needed",
    "sample_level_ci",
    "score",
    "scorer_score",
    "sign_test",
    "spending_of",
    "studentised_interval",
    "summary_scores",
    "t_interval",
    "unpaired_difference",
    "useful_ks",
    "variance_components",
    "wilson",
    "wilson_modified",
]
