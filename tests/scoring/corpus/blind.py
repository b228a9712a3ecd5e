"""The blind part of the corpus: written by a second reader who had not seen the grammar or the other templates."""

from __future__ import annotations

from collections.abc import Iterator

from tests.scoring.corpus._case import Case
from tests.scoring.corpus.blind_choice import blind_choice_cases
from tests.scoring.corpus.blind_formula import blind_formula_cases
from tests.scoring.corpus.blind_number import blind_number_cases
from tests.scoring.corpus.blind_text import blind_text_cases


def blind() -> Iterator[Case]:
    """Every case; of every class a third stayed sealed until the grammar was mended on the rest."""
    for source in (blind_choice_cases, blind_number_cases, blind_text_cases, blind_formula_cases):
        yield from source()
