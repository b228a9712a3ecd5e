"""What the reports of a comparison say of categories."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from nemo_evaluator.reports.compare import state_of, titled


@pytest.mark.parametrize(
    ("lower", "delta", "upper", "state"),
    [
        (-0.30, -0.20, -0.10, "BLOCK"),
        (-0.30, -0.20, +0.10, "INCONCLUSIVE"),
        (-0.30, -0.20, -0.02, "WARN"),
        (-0.05, -0.01, +0.10, "PASS"),
        (+0.10, +0.20, +0.30, "PASS"),
        (None, -0.20, None, "INCONCLUSIVE"),
        (None, +0.20, None, "INCONCLUSIVE"),
    ],
)
def test_what_is_known_of_a_category(
    lower: float | None, delta: float, upper: float | None, state: str
) -> None:
    report = cast(Any, SimpleNamespace(better=1.0, threshold=0.05))
    entry = cast(Any, {"ci_lower": lower, "delta": delta, "ci_upper": upper})
    assert state_of(entry, report) == state
    turned = cast(Any, SimpleNamespace(better=-1.0, threshold=0.05))
    ends = [None if end is None else -end for end in (upper, lower)]
    entry = cast(Any, {"ci_lower": ends[0], "delta": -delta, "ci_upper": ends[1]})
    assert state_of(entry, turned) == state


@pytest.mark.parametrize(
    ("models", "paths", "title"),
    [
        (("new", "old"), ("r/one/b/e.json", "r/two/b/e.json"), "new against old"),
        (("m", "m"), ("r/hot/b/e.json", "r/cold/b/e.json"), "hot against cold"),
        (("", ""), ("r/x/b/e.json", "s/x/b/e.json"), "r/x/b/e.json against s/x/b/e.json"),
    ],
)
def test_the_title_names_both_sides(
    models: tuple[str, str], paths: tuple[str, str], title: str
) -> None:
    new, old = (
        SimpleNamespace(config={"model": m}, path=p) for m, p in zip(models, paths, strict=True)
    )
    entry = SimpleNamespace(report=SimpleNamespace(candidate=new, baseline=old))
    assert titled(cast(Any, SimpleNamespace(entries=[entry, entry]))) == title
    other = SimpleNamespace(
        report=SimpleNamespace(
            candidate=SimpleNamespace(config={"model": "x"}, path="q/w/b/e"), baseline=old
        )
    )
    assert titled(cast(Any, SimpleNamespace(entries=[entry, other]))).startswith(
        "2 candidates against "
    )
