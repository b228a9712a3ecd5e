"""``type: nat_agent``: the earlier name of ``nat``."""

from nemo_evaluator.services.nat import KIND as KIND
