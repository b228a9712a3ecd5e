"""``python -m tests.scoring.corpus``: how often each scorer is wrongly right and wrongly wrong, by scorer and class."""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Any

from tests.scoring.corpus._case import Case
from tests.scoring.corpus.blind import blind
from tests.scoring.corpus.choice import choice_cases
from tests.scoring.corpus.formula import formula_cases
from tests.scoring.corpus.number import number_cases
from tests.scoring.corpus.text import text_cases

from nemo_evaluator.scoring import ScorerInput, get_scorer, run_scorer

BENCHMARKS = ("drop", "squad_v2", "triviaqa", "boolq", "bbh", "xstest")


def corpus() -> Iterator[Case]:
    """Every case."""
    for source in (choice_cases, number_cases, text_cases, formula_cases):
        yield from source()


async def judged(cases: Iterable[Case]) -> list[tuple[Case, bool, str | None]]:
    """The cases with what our scorers say of them."""
    verdicts = []
    for case in cases:
        score = await run_scorer(
            _scorer(case.scorer), ScorerInput(case.response, case.target, dict(case.metadata))
        )
        verdicts.append((case, score["correct"] == 1, score["extracted"]))
    return verdicts


def _scorer(name: str) -> Callable[..., Any]:
    """A scorer by its name, or that of a benchmark."""
    if name in BENCHMARKS:
        found: Callable[..., Any] = getattr(
            import_module(f"nemo_evaluator.benchmarks.{name}"), name
        )
        return found
    return get_scorer(name)


def rates(verdicts: Iterable[tuple[Case, bool, str | None]]) -> dict[str, dict[str, float]]:
    """By scorer: cases, and shares (of all cases) that are wrongly right and wrongly wrong; the same for held-out ones."""
    counts: dict[str, Counter[str]] = {}
    for case, said, _ in verdicts:
        for group in ("", "held out ") if case.held_out else ("",):
            count = counts.setdefault(case.scorer, Counter())
            count[f"{group}cases"] += 1
            count[f"{group}traps"] += not case.right
            count[f"{group}wrongly right"] += said and not case.right
            count[f"{group}wrongly wrong"] += case.right and not said
    return {scorer: dict(count) for scorer, count in counts.items()}


def main() -> None:
    """Print the table; ``--errors`` lists what was judged wrongly."""
    parser = argparse.ArgumentParser(prog="python -m tests.scoring.corpus", description=__doc__)
    parser.add_argument("--errors", choices=("tuned", "all"), help="list wrong verdicts")
    parser.add_argument("--scorer")
    parser.add_argument("--blind", action="store_true", help="the part that a second reader wrote")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in (blind() if arguments.blind else corpus())
        if arguments.scorer in (None, case.scorer)
    ]
    verdicts = asyncio.run(judged(chosen))
    print(
        f"{'scorer':20}{'cases':>7}{'traps':>7}{'wrongly right':>15}{'wrongly wrong':>15}   held out: right, wrong"
    )
    for scorer, count in rates(verdicts).items():
        shares = [
            100 * count[f"{group}{side}"] / count[f"{group}cases"]
            for group in ("", "held out ")
            for side in ("wrongly right", "wrongly wrong")
        ]
        print(
            f"{scorer:20}{count['cases']:7}{count['traps']:7}{shares[0]:13.2f} %{shares[1]:13.2f} %   {shares[2]:.2f} %, {shares[3]:.2f} %"
        )
    if arguments.errors:
        for case, said, extracted in verdicts:
            if said != case.right and (arguments.errors == "all" or not case.held_out):
                print(
                    f"{case.scorer}/{case.kind}: {case.response!r} target {case.target!r} took {extracted!r}, reader: {case.right}"
                )


if __name__ == "__main__":
    main()
