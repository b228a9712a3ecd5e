"""What the tests need to know about a built-in benchmark. Each one states it in its own file, as ``SELF_TEST``."""

from typing import Literal, TypeAlias

from nemo_evaluator.core.registry import load_object
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.values import dataclass, field

AnswerForm: TypeAlias = Literal[
    "choice", "number", "native number", "math", "text", "form of the target"
]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How the tests use the rows of a built-in benchmark.

    Attributes:
        mirror_rows: Number of its rows in the mirror of the tests; None when the mirror has none.
        answers: The form of its right answers. The tests then write right and wrong answers in many ways.
            None when the answers have no such form.
        wrong_share: The tests try every n-th wrong answer: more than 1 for a very large benchmark.
        has_target: Whether every row has an expected answer.
        params: The ``params:`` that its rows in the mirror need.
        fewshot: The number of worked examples for its rows in the mirror; None for its default.
    """

    mirror_rows: int | None = None
    answers: AnswerForm | None = None
    wrong_share: int = 1
    has_target: bool = True
    params: JsonDict = field(default_factory=dict)
    fewshot: int | None = None


def self_test(name: str) -> SelfTest:
    """Load what a built-in benchmark declares for its tests.

    Args:
        name: The name of the benchmark, which is also the name of its module.
    """
    declaration = load_object(f"nemo_evaluator.benchmarks.{name}:SELF_TEST")
    assert isinstance(declaration, SelfTest)
    return declaration
