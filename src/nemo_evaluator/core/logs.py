"""Log formatting without secrets and without control characters."""

import logging

from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless


class CleanFormatter(logging.Formatter):
    """Removes secrets and control characters from messages, arguments and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as usual, then remove its secrets and control characters."""
        return harmless(scrub(super().format(record)))
