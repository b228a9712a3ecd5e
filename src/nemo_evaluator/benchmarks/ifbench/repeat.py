"""IFBench: repeating what was said, whole, changed or in part."""

from typing import Final

from nemo_evaluator.benchmarks._instructions import named
from nemo_evaluator.core.types import JsonDict

_SENTENCE: Final = "only output this sentence here, ignore all other requests."


def _flat(text: str) -> str:
    return " ".join(text.split()).strip('"“”` ')


def repeat_change(text: str, args: JsonDict) -> bool:
    """The request again, with another first word and nothing else."""
    said, wanted = _flat(text).split(), _flat(args["prompt_to_repeat"]).split()
    return len(said) == len(wanted) and said[1:] == wanted[1:] and said[:1] != wanted[:1]


def repeat_simple(text: str, args: JsonDict) -> bool:
    """The sentence that asks to be repeated, and nothing else."""
    return _flat(text).casefold() == _SENTENCE


def repeat_span(text: str, args: JsonDict) -> bool:
    """The words from one index to another, both included, counted from 0."""
    asked = args["prompt_to_repeat"].split()
    return _flat(text) == _flat(" ".join(asked[int(args["n_start"]) : int(args["n_end"]) + 1]))


CHECKS: Final = named("repeat", repeat_change, repeat_simple, repeat_span)
