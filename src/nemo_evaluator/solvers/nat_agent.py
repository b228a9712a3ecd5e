"""``nat_agent``: the older word for ``nat``."""

from nemo_evaluator.solvers.nat import KIND as KIND
