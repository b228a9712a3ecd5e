"""Mathematical equivalence, decided by math-verify in a worker process under a CPU limit."""

import asyncio
from typing import Final

from nemo_evaluator.core.lazy import lazy_pattern
from nemo_evaluator.scoring._formula import extract_expression, is_list, is_relation, split_list
from nemo_evaluator.scoring._math_pool import MathPool, shared_pool
from nemo_evaluator.scoring.number import parse_number
from nemo_evaluator.scoring.types import Score, ScorerInput, found, versioned

_SPACES: Final = lazy_pattern(r"\s+|\\[,;:! ]|\\left|\\right|\\displaystyle")
_WRAP: Final = lazy_pattern(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf)|mbox)\{([^{}]*)\}")
_NUMBER: Final = lazy_pattern(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+")
_DEFAULT_SECONDS: Final = 5.0
# No answer is a formula of that length; algebra on it would only spend the limit.
_LONGEST: Final = 1000


@versioned("4", inline=False)
async def math(sample: ScorerInput, timeout: float = _DEFAULT_SECONDS, pool: MathPool | None = None) -> Score:
    """Is the announced answer mathematically equal to the target? Equal spelling and plain numbers are decided here,
    the rest by math-verify. An answer that cannot be compared within ``timeout`` CPU seconds is unparsed; a target that
    cannot is a failure of the scorer."""
    target = str(sample.target)
    said = extract_expression(sample.response, listed=is_list(target), question=sample.question)
    if said is None or len(said) > _LONGEST:
        return found(None, False)
    if (is_list(said) and not is_list(target)) or (is_relation(said) and not is_relation(target)):
        same = _bare(said) == _bare(target)
        return found(said if same else None, same)
    workers = pool or shared_pool()
    wanted, given = split_list(target), split_list(said.rpartition("=")[2])
    if len(wanted) > 1:
        # A list without brackets has no order.
        same = len(wanted) == len(given) and await _paired(wanted, given, workers, timeout)
        return found(said, same or _bare(said) == _bare(target))
    verdict = await _equal(said, target, workers, timeout)
    return found(None if verdict is None else said, bool(verdict))


async def _equal(said: str, target: str, workers: MathPool, timeout: float) -> bool | None:
    quick = _quick(said, target)
    return quick if quick is not None else await asyncio.to_thread(workers.equal, target, said, timeout)


async def _paired(wanted: list[str], given: list[str], workers: MathPool, timeout: float) -> bool:
    """Whether each wanted value has a given one of its own."""
    left = list(given)
    for target in wanted:
        for said in left:
            if await _equal(said, target, workers, timeout):
                left.remove(said)
                break
        else:
            return False
    return True


def _quick(said: str, target: str) -> bool | None:
    """True or False when plain comparison decides; None when algebra is needed."""
    if _bare(said) == _bare(target):
        return True
    left, right = _NUMBER.fullmatch(_bare(said)), _NUMBER.fullmatch(_bare(target))
    if left and right:
        mine, theirs = parse_number(left[0]), parse_number(right[0])
        return mine is not None and theirs is not None and mine.equals(theirs)
    return None


def _bare(text: str) -> str:
    text = _WRAP.sub(r"\1", text.strip().strip("$"))
    text = _SPACES.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").replace("{,}", ",")
    text = text.replace("\\$", "").replace("\\%", "").rstrip(".%")
    return text.removesuffix("^\\circ").removesuffix("^{\\circ}").casefold()
