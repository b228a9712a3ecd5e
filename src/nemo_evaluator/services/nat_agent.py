"""``type: nat_agent``: the older word for ``nat``."""

from nemo_evaluator.services.nat import KIND as KIND
