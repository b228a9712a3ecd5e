"""Pure statistics on columns of numbers: intervals, pass@k, paired tests, multiplicity, sequential rules, power."""

from typing import TYPE_CHECKING

from nemo_evaluator.core.lazy import lazy_names

if TYPE_CHECKING:
    from nemo_evaluator.statistics.alpha_spending import ANYTIME as ANYTIME
    from nemo_evaluator.statistics.alpha_spending import ENDED as ENDED
    from nemo_evaluator.statistics.alpha_spending import PLANNED as PLANNED
    from nemo_evaluator.statistics.alpha_spending import STOPPED as STOPPED
    from nemo_evaluator.statistics.alpha_spending import Reading as Reading
    from nemo_evaluator.statistics.alpha_spending import Spending as Spending
    from nemo_evaluator.statistics.alpha_spending import joint_spending as joint_spending
    from nemo_evaluator.statistics.alpha_spending import spending_of as spending_of
    from nemo_evaluator.statistics.bootstrap import bca_interval as bca_interval
    from nemo_evaluator.statistics.bootstrap import bootstrap_ci as bootstrap_ci
    from nemo_evaluator.statistics.bootstrap import studentised_interval as studentised_interval
    from nemo_evaluator.statistics.difference import Difference as Difference
    from nemo_evaluator.statistics.difference import mean_difference as mean_difference
    from nemo_evaluator.statistics.difference import unpaired_difference as unpaired_difference
    from nemo_evaluator.statistics.groups import VarianceComponents as VarianceComponents
    from nemo_evaluator.statistics.groups import by_problem as by_problem
    from nemo_evaluator.statistics.groups import is_fractional as is_fractional
    from nemo_evaluator.statistics.groups import variance_components as variance_components
    from nemo_evaluator.statistics.headline import MissingBounds as MissingBounds
    from nemo_evaluator.statistics.headline import breakdowns as breakdowns
    from nemo_evaluator.statistics.headline import category_breakdown as category_breakdown
    from nemo_evaluator.statistics.headline import category_scores as category_scores
    from nemo_evaluator.statistics.headline import headline_score_metrics as headline_score_metrics
    from nemo_evaluator.statistics.headline import headline_scores as headline_scores
    from nemo_evaluator.statistics.headline import missing_bounds as missing_bounds
    from nemo_evaluator.statistics.headline import pass_at_k as pass_at_k
    from nemo_evaluator.statistics.headline import pass_hat_k as pass_hat_k
    from nemo_evaluator.statistics.headline import pass_intervals as pass_intervals
    from nemo_evaluator.statistics.headline import sample_level_ci as sample_level_ci
    from nemo_evaluator.statistics.headline import score as score
    from nemo_evaluator.statistics.headline import scorer_score as scorer_score
    from nemo_evaluator.statistics.headline import summary_scores as summary_scores
    from nemo_evaluator.statistics.headline import useful_ks as useful_ks
    from nemo_evaluator.statistics.intervals import Interval as Interval
    from nemo_evaluator.statistics.intervals import beta_binomial as beta_binomial
    from nemo_evaluator.statistics.intervals import clopper_pearson as clopper_pearson
    from nemo_evaluator.statistics.intervals import cluster_t as cluster_t
    from nemo_evaluator.statistics.intervals import cluster_wilson as cluster_wilson
    from nemo_evaluator.statistics.intervals import mean_interval as mean_interval
    from nemo_evaluator.statistics.intervals import t_interval as t_interval
    from nemo_evaluator.statistics.intervals import wilson as wilson
    from nemo_evaluator.statistics.intervals import wilson_modified as wilson_modified
    from nemo_evaluator.statistics.paired import Correction as Correction
    from nemo_evaluator.statistics.paired import PairedTest as PairedTest
    from nemo_evaluator.statistics.paired import adjust as adjust
    from nemo_evaluator.statistics.paired import benjamini_hochberg as benjamini_hochberg
    from nemo_evaluator.statistics.paired import holm as holm
    from nemo_evaluator.statistics.paired import mcnemar_test as mcnemar_test
    from nemo_evaluator.statistics.paired import permutation_test as permutation_test
    from nemo_evaluator.statistics.paired import sign_test as sign_test
    from nemo_evaluator.statistics.power import Spread as Spread
    from nemo_evaluator.statistics.power import detectable_effect as detectable_effect
    from nemo_evaluator.statistics.power import paired_power as paired_power
    from nemo_evaluator.statistics.power import problems_needed as problems_needed
    from nemo_evaluator.statistics.sequential import MeanSequence as MeanSequence
    from nemo_evaluator.statistics.stop_rule import Baseline as Baseline
    from nemo_evaluator.statistics.stop_rule import StopRule as StopRule

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "ANYTIME": "nemo_evaluator.statistics.alpha_spending",
        "Baseline": "nemo_evaluator.statistics.stop_rule",
        "Correction": "nemo_evaluator.statistics.paired",
        "Difference": "nemo_evaluator.statistics.difference",
        "ENDED": "nemo_evaluator.statistics.alpha_spending",
        "Interval": "nemo_evaluator.statistics.intervals",
        "MeanSequence": "nemo_evaluator.statistics.sequential",
        "MissingBounds": "nemo_evaluator.statistics.headline",
        "PLANNED": "nemo_evaluator.statistics.alpha_spending",
        "PairedTest": "nemo_evaluator.statistics.paired",
        "Reading": "nemo_evaluator.statistics.alpha_spending",
        "STOPPED": "nemo_evaluator.statistics.alpha_spending",
        "Spending": "nemo_evaluator.statistics.alpha_spending",
        "Spread": "nemo_evaluator.statistics.power",
        "StopRule": "nemo_evaluator.statistics.stop_rule",
        "VarianceComponents": "nemo_evaluator.statistics.groups",
        "adjust": "nemo_evaluator.statistics.paired",
        "bca_interval": "nemo_evaluator.statistics.bootstrap",
        "benjamini_hochberg": "nemo_evaluator.statistics.paired",
        "beta_binomial": "nemo_evaluator.statistics.intervals",
        "bootstrap_ci": "nemo_evaluator.statistics.bootstrap",
        "breakdowns": "nemo_evaluator.statistics.headline",
        "by_problem": "nemo_evaluator.statistics.groups",
        "category_breakdown": "nemo_evaluator.statistics.headline",
        "category_scores": "nemo_evaluator.statistics.headline",
        "clopper_pearson": "nemo_evaluator.statistics.intervals",
        "cluster_t": "nemo_evaluator.statistics.intervals",
        "cluster_wilson": "nemo_evaluator.statistics.intervals",
        "detectable_effect": "nemo_evaluator.statistics.power",
        "headline_score_metrics": "nemo_evaluator.statistics.headline",
        "headline_scores": "nemo_evaluator.statistics.headline",
        "holm": "nemo_evaluator.statistics.paired",
        "is_fractional": "nemo_evaluator.statistics.groups",
        "joint_spending": "nemo_evaluator.statistics.alpha_spending",
        "mcnemar_test": "nemo_evaluator.statistics.paired",
        "mean_difference": "nemo_evaluator.statistics.difference",
        "mean_interval": "nemo_evaluator.statistics.intervals",
        "missing_bounds": "nemo_evaluator.statistics.headline",
        "paired_power": "nemo_evaluator.statistics.power",
        "pass_at_k": "nemo_evaluator.statistics.headline",
        "pass_hat_k": "nemo_evaluator.statistics.headline",
        "pass_intervals": "nemo_evaluator.statistics.headline",
        "permutation_test": "nemo_evaluator.statistics.paired",
        "problems_needed": "nemo_evaluator.statistics.power",
        "sample_level_ci": "nemo_evaluator.statistics.headline",
        "score": "nemo_evaluator.statistics.headline",
        "scorer_score": "nemo_evaluator.statistics.headline",
        "sign_test": "nemo_evaluator.statistics.paired",
        "spending_of": "nemo_evaluator.statistics.alpha_spending",
        "studentised_interval": "nemo_evaluator.statistics.bootstrap",
        "summary_scores": "nemo_evaluator.statistics.headline",
        "t_interval": "nemo_evaluator.statistics.intervals",
        "unpaired_difference": "nemo_evaluator.statistics.difference",
        "useful_ks": "nemo_evaluator.statistics.headline",
        "variance_components": "nemo_evaluator.statistics.groups",
        "wilson": "nemo_evaluator.statistics.intervals",
        "wilson_modified": "nemo_evaluator.statistics.intervals",
    },
)
