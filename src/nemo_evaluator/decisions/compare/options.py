"""How to compare, and which test goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nemo_evaluator.decisions.pairing import PairBy, Pairing
from nemo_evaluator.metrics import PairedTest, mcnemar_test, permutation_test, sign_test
from nemo_evaluator.metrics.groups import is_binary

if TYPE_CHECKING:
    from nemo_evaluator.config.gate_policy import Direction

TestName: TypeAlias = Literal["auto", "mcnemar", "sign", "permutation"]

DEFAULT_MAX_DROP: Final = 0.05
N_PERMUTATIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How to compare."""

    max_drop: float = DEFAULT_MAX_DROP
    correct_above: float = 0.0
    test: TestName = "auto"
    confidence: float = 0.95
    pair_by: PairBy = "auto"
    seed: int = 42
    direction: Direction = "higher_is_better"

    @property
    def better(self) -> float:
        """The sign of a difference that is good."""
        return 1.0 if self.direction == "higher_is_better" else -1.0


def choose_test(pairing: Pairing, options: CompareOptions) -> tuple[PairedTest, str]:
    """The test that was asked for, or the one that fits; its effect is what was gained, negative when it got worse."""
    gain = options.better * pairing.differences
    single = is_binary(pairing.baseline.rewards) and is_binary(pairing.candidate.rewards)
    if options.test == "sign":
        return sign_test(gain), "asked for"
    if options.test == "mcnemar" or (options.test == "auto" and single):
        before = pairing.baseline.rewards > options.correct_above
        after = pairing.candidate.rewards > options.correct_above
        lost, won = int((before & ~after).sum()), int((~before & after).sum())
        worse, better = (lost, won) if options.better > 0 else (won, lost)
        why = "asked for" if options.test == "mcnemar" else "every problem is right or wrong on both sides"
        return mcnemar_test(worse, better, len(pairing)), why
    why = "asked for" if options.test == "permutation" else "rewards are means or fractions"
    return permutation_test(gain, n_permutations=N_PERMUTATIONS, seed=options.seed), why
