"""Whether two runs asked the same thing in the same way, and what else a reader of a comparison must know."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from nemo_evaluator.core.json_coerce import as_dict, as_number
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.pairing import Pairing, missing_rows
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.decisions.usability import planned_rows, tampered, tampering_of
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.calibration import tie
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.statistics import STOPPED, spending_of

Kind = Literal["prompt", "generation", "dataset", "scorer", "solver", "size", "setting", "version"]

# A service is its model and address, which are meant to differ.
_FINGERPRINTS: Final[dict[str, Kind]] = {
    "dataset": "dataset",
    "scorer": "scorer",
    "template": "prompt",
    "solver": "solver",
}
# What a key is about, by the first name on its way down that says so; all others are settings.
_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("repeats", "max_problems", "only", "shuffle_seed"), "size"),
    **dict.fromkeys(("params", "dataset", "split", "revision"), "dataset"),
    **dict.fromkeys(
        ("system_prompt", "instruction_template", "template", "fewshot", "prompt"), "prompt"
    ),
    **dict.fromkeys(("scorers", "scoring", "scorer", "judge"), "scorer"),
    "generation": "generation",
    "solver": "solver",
}
# Which model answered, and where, is what a comparison is about; the rest says nothing about what was asked.
_MODEL: Final = frozenset({"service", "model", "model_id", "base_url", "model_url", "url"})
_ASIDE: Final = frozenset(
    {"benchmark", "fingerprints", "resumed", "min_coverage", "shuffle", "shard"}
)
# Settings without which two runs cannot be told to be alike.
_TELLING: Final = ("generation", "solver", "fingerprints")
WORDS: Final = ("the baseline", "the candidate")
_MANY_UNANSWERED: Final = 0.05
# From which difference on of the shares of failed rows a reader must know of it, and how many causes are named.
_UNEVEN: Final = 0.005
_MOST_CAUSES: Final = 3


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One setting that is not the same on both sides."""

    kind: Kind
    what: str
    baseline: Any
    candidate: Any

    def __str__(self) -> str:
        if self.baseline is None and self.candidate is None:
            return f"{self.kind} differs: {self.what}"
        shown = [
            text if len(text) <= 60 else text[:59] + "…"
            for text in (repr(self.baseline), repr(self.candidate))
        ]
        return f"{self.kind} differs: {self.what} is {shown[0]} and {shown[1]}"


def differences(baseline: Bundle, candidate: Bundle) -> list[SettingDifference]:
    """What the two bundles say differently; the model and its address may differ, that is the point. A key that one of
    them does not have is not a difference but a gap: see ``unstated``."""
    found: list[SettingDifference] = []
    if baseline.name != candidate.name:
        found.append(
            SettingDifference("dataset", "benchmark", baseline.name, candidate=candidate.name)
        )
    left = baseline.config
    right = candidate.config
    for key in sorted((left.keys() & right.keys()) - _ASIDE):
        found += _nested("setting", key, key, left=left[key], right=right[key])
    found += _sizes(left, right)
    found += _fingerprints(left, right, found)
    versions = baseline.sdk_version, candidate.sdk_version
    if all(versions) and versions[0] != versions[1]:
        found.append(SettingDifference("version", "nel", *versions))
    return found


def unstated(baseline: Bundle, candidate: Bundle) -> list[str]:
    """Which of the settings that matter only one of the bundles states."""
    gaps = ", ".join(
        key for key in _TELLING if (key in baseline.config) != (key in candidate.config)
    )
    if gaps:
        return [f"whether {gaps} are the same is not known: only one of the bundles states them"]
    return []


def _nested(kind: Kind, key: str, path: str, left: Any, right: Any) -> Iterator[SettingDifference]:
    outer = kind in ("setting", "solver")
    if key.startswith("_") or (outer and key in _MODEL):
        return
    # A prompt within a solver is about prompts; a name below a dataset's parameters is about the dataset.
    if outer:
        inner = _KINDS.get(key, kind)
    else:
        inner = kind
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from _nested(
                inner, name, f"{path}.{name}", left=left.get(name), right=right.get(name)
            )
    elif left != right and not all(
        value is None or value in ("", [], {}) for value in (left, right)
    ):
        yield SettingDifference(inner, path, left, candidate=right)


def _sizes(left: JsonDict, right: JsonDict) -> Iterator[SettingDifference]:
    shards = [as_dict(config.get("shard")) for config in (left, right)]
    parts = [f"{shard.get('idx')} of {shard.get('total')}" if shard else None for shard in shards]
    if parts[0] != parts[1]:
        yield SettingDifference("size", "shard", *parts)
    rows = [(config.get("shuffle") or {}).get("ds_full_size") for config in (left, right)]
    if all(rows) and rows[0] != rows[1]:
        yield SettingDifference("dataset", "number of problems", *rows)


def _fingerprints(
    left: JsonDict, right: JsonDict, known: list[SettingDifference]
) -> Iterator[SettingDifference]:
    one = left.get("fingerprints") or {}
    two = right.get("fingerprints") or {}
    for key, kind in _FINGERPRINTS.items():
        # What is already named needs no second line.
        if any(
            difference.kind == kind or difference.what.startswith(f"{key}.") for difference in known
        ):
            continue
        if one.get(key) and two.get(key) and one[key] != two[key]:
            yield SettingDifference(
                kind, f"{key} fingerprint", str(one[key])[:8], candidate=str(two[key])[:8]
            )


def caveats(
    runs: tuple[Bundle, Bundle],
    rows: tuple[RowTable, RowTable],
    pairing: Pairing,
    differences: Sequence[SettingDifference],
) -> list[str]:
    """Warnings on the runs, on what did not pair, and on what was not the same on both sides."""
    found: list[str] = []
    for word, run, side in zip(WORDS, runs, rows, strict=True):
        for line in _of_side(word, run, side):
            found.append(line)
    seeds = [run.config.get("shuffle_seed") for run in runs]
    if all(spending_of(run.stopped) == STOPPED for run in runs) and seeds[0] != seeds[1]:
        found.append(
            f"rules stopped both runs, in different orders (shuffle_seed {seeds[0]}, {seeds[1]}): which problems they "
            "share depends on both, and no interval quite allows for that"
        )
    found += [*pairing.warnings, *_left_out(pairing), *_uneven_failures(runs, rows)]
    if len(pairing):
        found += _asked_differently(*rows, pairing)
        left, right = (float(side.answers.mean()) for side in pairing.sides)
        told = any(difference.what == "repeats" for difference in differences)
        if abs(left - right) > 0.1 * min(left, right) and not told:
            found.append(
                f"answers a problem: {left:.3g} in the baseline, {right:.3g} in the candidate"
            )
    return [*found, *map(str, differences), *unstated(*runs)]


def _of_side(word: str, run: Bundle, rows: RowTable) -> Iterator[str]:
    if not len(rows):
        yield f"{word} has no rows: {run.results}"
    words = rule_words(run.stopped)
    if words:
        yield f"{word} had a stop rule ({words}); the interval allows for its looks, the tests beside it do not"
    elif run.stop_reason:
        yield f"{word} did not run to its end: {run.stop_reason}"
    yield from (f"{word}: {note}" for note in run.notes)
    yield from _noise(word, run)
    tampering = tampering_of(rows)
    if tampering is not None:
        if (rows.reward[tampered(rows)] == 0).all():
            yield f"{word}: {counted(tampering.tampered, 'row')} that reached for the judge (tamper), counted as 0"
        yield f"{word}: {tampering.words}"
    if rows.unanswered_share > _MANY_UNANSWERED:
        yield unanswered_words(word, rows)
    if rows.malformed:
        yield f"{word}: {counted(rows.malformed, 'malformed line')}, left out"


def _noise(word: str, run: Bundle) -> Iterator[str]:
    if run.noise and run.noise.get("measured_by") != tie(as_dict(run.config.get("fingerprints"))):
        yield f"{word}: its noise floor was measured on other settings and is left out; run `nel noise` again"
        return
    changes = [as_dict(run.noise.get(name)) for name in ("again", "other_level")]
    worst = max(changes, key=lambda change: as_number(change.get("score")) or 0.0)
    verdicts = as_number(worst.get("verdicts"))
    if verdicts:
        yield (
            f"{word} differs from itself by {100 * (as_number(worst.get('score')) or 0.0):.1f} points when it is asked "
            f"again ({verdicts:.1%} of verdicts change): a difference of that size tells nothing of the models"
        )


def unanswered_words(word: str, rows: RowTable) -> str:
    """How many answers of a side say nothing, or were filtered."""
    return f"{word}: {rows.unanswered_share:.1%} of the answers are empty or content-filtered"


def _left_out(pairing: Pairing) -> Iterator[str]:
    if pairing.only_baseline or pairing.only_candidate:
        only = f"{pairing.only_baseline:,} only in the baseline, {pairing.only_candidate:,} only in the candidate"
        yield f"{counted(len(pairing), 'problem')} paired; {only}"
    unscored = pairing.baseline.unscored, pairing.candidate.unscored
    if any(unscored):
        where = f"{unscored[0]:,} in the baseline, {unscored[1]:,} in the candidate"
        yield f"problems without a scored answer are left out: {where}"


def _uneven_failures(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> Iterator[str]:
    """That many more rows failed on one side than on the other: what failed is not in the scores."""
    planned = [planned_rows(run, side) for run, side in zip(runs, rows, strict=True)]
    lost = missing_rows(runs, rows)
    more = abs(lost[0] / max(planned[0], 1) - lost[1] / max(planned[1], 1))
    if more <= _UNEVEN:
        return
    sides: list[str] = []
    for word, count, side in zip(WORDS, lost, rows, strict=True):
        sides.append(f"{counted(count, 'row')} failed in {word}{_causes(side)}")
    scores: list[float] = []
    for side, count in zip(rows, planned, strict=True):
        scores.append(float(side.reward[side.scored].sum()) / max(count, 1))
    yield f"{', '.join(sides)}: with failed rows as 0 the scores are {scores[0]:.4f} and {scores[1]:.4f}"


def _causes(rows: RowTable) -> str:
    """The most frequent causes of failed rows, in brackets."""
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    ranked = sorted(zip(counts.tolist(), codes.tolist(), strict=True), reverse=True)
    words = [f"{count:,} {rows.causes[code] or 'unknown'}" for count, code in ranked[:_MOST_CAUSES]]
    if words:
        return f" ({', '.join(words)})"
    return ""


def _asked_differently(baseline: RowTable, candidate: RowTable, pairing: Pairing) -> Iterator[str]:
    at_left = pairing.baseline.first
    at_right = pairing.candidate.first
    for what, left, right in (
        ("prompts differ", baseline.prompt, candidate.prompt),
        (
            "dataset differs: expected answers are not the same",
            baseline.expected,
            candidate.expected,
        ),
    ):
        one = left[at_left]
        two = right[at_right]
        # 0 stands for a row that does not say.
        count = int(np.count_nonzero((one != two) & (one != 0) & (two != 0)))
        if count:
            yield f"{what} on {count:,} of {len(pairing):,} paired problems"
