"""Two runs that people labelled, set against each other: both corrected, problem by problem."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.calibrate.judged_rows import JudgedRows, read_judged
from nemo_evaluator.decisions.calibrate.report import LEAST, check_draw, drawn_only
from nemo_evaluator.metrics import Difference, Spending
from nemo_evaluator.metrics.ppi import Labelled, corrected_difference
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import read_draw
from nemo_evaluator.runs.labels import read_labels


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Baseline and candidate on the problems that they share."""

    baseline: Labelled
    candidate: Labelled

    def difference(self, better: float = 1.0, share: float = 1.0) -> Difference:
        """What the candidate gained over ``share`` of the baseline; with ``better`` below 0, what it lost."""
        if better > 0:
            return corrected_difference(self.baseline, self.candidate, share=share)
        found = corrected_difference(self.candidate, self.baseline, share=1 / share)
        return replace(found, value=found.value * share, scale=found.scale * share)


def labelled_pair(
    left: Bundle, right: Bundle, spending: Spending, *, by_index: bool = False
) -> tuple[LabelledPair | None, list[str]]:
    """Both runs with their labels where both have them, and what a reader must know of it."""
    folders = [run.path.parent for run in (left, right)]
    given = [
        read_labels(folder) if run.path.is_file() else {} for run, folder in zip((left, right), folders, strict=True)
    ]
    if not any(given):
        return None, []
    if not all(given):
        return None, ["only one side has labels, so the comparison is of what the judge says"]
    if spending.looking:
        return None, ["labels are left out: no corrected interval allows for the looks of a stop rule"]
    sides: list[tuple[JudgedRows, Labelled]] = []
    stray = 0
    for run, labels, folder in zip((left, right), given, folders, strict=True):
        rows, draw = read_judged(run), read_draw(folder)
        used = drawn_only(labels, draw)
        stray += len(labels) - len(used)
        try:
            check_draw(rows, used, draw, convenience=False)
        except UsageError as error:
            return None, [f"labels are left out: {error.message}"]
        sides.append((rows, rows.labelled(used, draw)))
    named = [[str(key[0]) for key in rows.keys] if by_index else rows.content for rows, _ in sides]
    codes = {name: code for code, name in enumerate(sorted({*named[0]} & {*named[1]}))}
    base, other = (_shared(data, names, codes) for (_, data), names in zip(sides, named, strict=True))
    if min(base.labels, other.labels) < LEAST:
        return None, [f"labels are left out: fewer than {LEAST} of a side are on problems that both runs have"]
    note = (
        f"the difference is corrected by labels ({base.labels:,} of the baseline, {other.labels:,} of the candidate): "
        "it is what people would find, not what the judge says"
    )
    both = len(_labelled_on(base) & _labelled_on(other))
    hints = [note, *([f"{counted(stray, 'label')} on rows that were not drawn, left out"] if stray else [])]
    if both < min(base.labels, other.labels) / 2:
        hints.append(f"people labelled {counted(both, 'problem')} on both sides: `nel judge sample --like` tells more")
    return LabelledPair(base, other), hints


def _labelled_on(data: Labelled) -> set[int]:
    assert data.clusters is not None
    return set(data.clusters[data.known > 0].tolist())


def _shared(data: Labelled, names: list[str], codes: dict[str, int]) -> Labelled:
    at = np.array([codes.get(name, -1) for name in names], dtype=np.int64)
    keep = at >= 0
    chance = None if data.chance is None else data.chance[keep]
    return Labelled(data.judge[keep], data.human[keep], chance, at[keep])
