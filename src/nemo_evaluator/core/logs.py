"""Logs that others write through, without secrets and without what would disturb a terminal."""

import logging

from nemo_evaluator.core.secrets import scrub
from nemo_evaluator.core.terminal import harmless


class CleanFormatter(logging.Formatter):
    """Formats as told, then takes secrets and control characters out: of messages, arguments and tracebacks alike."""

    def format(self, record: logging.LogRecord) -> str:
        return harmless(scrub(super().format(record)))
