"""Pure statistics on columns of numbers: intervals, pass@k, paired tests, multiplicity, sequential rules, power."""

from nemo_evaluator.metrics.bootstrap import bca_interval, bootstrap_ci, studentised_interval
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
from nemo_evaluator.metrics.paired import PairedTest, mcnemar_test, permutation_test, sign_test
from nemo_evaluator.metrics.passk import pass_at_k, pass_hat_k, pass_intervals, useful_ks

__all__ = [
    "Interval",
    "PairedTest",
    "bca_interval",
    "beta_binomial",
    "bootstrap_ci",
    "breakdowns",
    "by_problem",
    "category_breakdown",
    "category_scores",
    "clopper_pearson",
    "cluster_t",
    "cluster_wilson",
    "headline_score_metrics",
    "headline_scores",
    "is_fractional",
    "mcnemar_test",
    "mean_interval",
    "pass_at_k",
    "pass_hat_k",
    "pass_intervals",
    "permutation_test",
    "sample_level_ci",
    "score",
    "scorer_score",
    "sign_test",
    "studentised_interval",
    "summary_scores",
    "t_interval",
    "useful_ks",
    "wilson",
    "wilson_modified",
]
