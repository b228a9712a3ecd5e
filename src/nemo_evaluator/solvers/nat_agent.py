"""``nat_agent``: the earlier name of ``nat``."""

from nemo_evaluator.solvers.nat import KIND as KIND
