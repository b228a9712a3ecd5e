"""The statistics, under the name that users import: all of it is in ``nemo_evaluator.statistics``."""

from nemo_evaluator.statistics import *  # noqa: F403 - an alias of the whole package
