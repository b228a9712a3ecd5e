"""The log of the stages that speak, and where it is heard."""

import logging
from typing import Final

from nemo_evaluator.core.logs import CleanFormatter

log: Final = logging.getLogger("nemo_evaluator.traffic")


def make_audible() -> None:
    """Show the log on stderr, unless the program has set its logging up by itself."""
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(CleanFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
