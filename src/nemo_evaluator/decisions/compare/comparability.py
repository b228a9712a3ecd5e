"""Whether two runs are comparable: settings that differ, and warnings for the reader of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from nemo_evaluator.core.json_coerce import as_dict
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.core.wording import counted
from nemo_evaluator.decisions.pairing import Pairing, missing_rows
from nemo_evaluator.decisions.run_noise import noise_notes
from nemo_evaluator.decisions.stop_words import rule_words
from nemo_evaluator.decisions.usability import planned_rows, tampered, tampering_of
from nemo_evaluator.runs.bundle import Bundle
from nemo_evaluator.runs.row_table import RowTable
from nemo_evaluator.statistics import STOPPED, spending_of

if TYPE_CHECKING:
    from nemo_evaluator.decisions.compare.comparison_document import SettingEntry

Kind = Literal["prompt", "generation", "dataset", "scorer", "solver", "size", "setting", "version"]

# A service is its model and address, which are meant to differ.
_FINGERPRINTS: Final[dict[str, Kind]] = {
    "dataset": "dataset",
    "scorer": "scorer",
    "template": "prompt",
    "solver": "solver",
}
# The kind of a configuration key, by the first name on its path that is listed; all others are settings.
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
# The model and its address are meant to differ; the keys in _ASIDE do not change the prompts.
_MODEL: Final = frozenset({"service", "model", "model_id", "base_url", "model_url", "url"})
_ASIDE: Final = frozenset(
    {"benchmark", "fingerprints", "resumed", "min_coverage", "shuffle", "shard"}
)
# Settings that both bundles must state to show that the runs are alike.
_ESSENTIAL: Final = ("generation", "solver", "fingerprints")
WORDS: Final = ("the baseline", "the candidate")
_MANY_UNANSWERED: Final = 0.05
# A difference of the shares of failed rows that deserves a warning, and how many causes the warning names.
_UNEVEN: Final = 0.005
_MOST_CAUSES: Final = 3
_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One setting that differs between the runs.

    Attributes:
        kind: What the setting affects.
        what: The setting, as a path in the configuration or in words.
        baseline: The baseline's value; None on both sides when there is no value to show.
        candidate: The candidate's value.
    """

    kind: Kind
    what: str
    baseline: Any
    candidate: Any

    def to_dict(self) -> SettingEntry:
        """The JSON of the difference."""
        return {
            "kind": self.kind,
            "what": self.what,
            "baseline": self.baseline,
            "candidate": self.candidate,
        }

    def __str__(self) -> str:
        if self.baseline is None and self.candidate is None:
            return f"{self.kind} differs: {self.what}"
        baseline = _shortened(repr(self.baseline))
        candidate = _shortened(repr(self.candidate))
        return f"{self.kind} differs: {self.what} is {baseline} and {candidate}"


def _shortened(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return text
    return text[: _SHOWN_CHARACTERS - 1] + "…"


def differences(baseline: Bundle, candidate: Bundle) -> list[SettingDifference]:
    """The settings that differ between two runs, apart from the model and its address.

    A key that only one bundle has is a gap, not a difference; see ``unstated``.

    Args:
        baseline: The baseline.
        candidate: The candidate.
    """
    differing: list[SettingDifference] = []
    if baseline.name != candidate.name:
        differing.append(
            SettingDifference("dataset", "benchmark", baseline.name, candidate=candidate.name)
        )
    baseline_config = baseline.config
    candidate_config = candidate.config
    shared_keys = baseline_config.keys() & candidate_config.keys()
    for key in sorted(shared_keys - _ASIDE):
        differing += _nested(
            "setting", key, key, left=baseline_config[key], right=candidate_config[key]
        )
    differing += _sizes(baseline_config, candidate_config)
    differing += _fingerprints(baseline_config, candidate_config, differing)
    baseline_version = baseline.sdk_version
    candidate_version = candidate.sdk_version
    if baseline_version and candidate_version and baseline_version != candidate_version:
        differing.append(
            SettingDifference("version", "nel", baseline_version, candidate=candidate_version)
        )
    return differing


def unstated(baseline: Bundle, candidate: Bundle) -> list[str]:
    """The warning about essential settings that only one of the bundles states."""
    gaps: list[str] = []
    for key in _ESSENTIAL:
        if (key in baseline.config) != (key in candidate.config):
            gaps.append(key)
    if not gaps:
        return []
    return [
        f"whether {', '.join(gaps)} are the same is not known: only one of the bundles states them"
    ]


def _nested(kind: Kind, key: str, path: str, left: Any, right: Any) -> Iterator[SettingDifference]:
    """The differences of one configuration value and the values inside it.

    Args:
        kind: The kind of the enclosing value.
        key: The last name of the path.
        path: The path in the configuration, with dots.
        left: The baseline's value.
        right: The candidate's value.
    """
    kind_is_open = kind in ("setting", "solver")
    if key.startswith("_") or (kind_is_open and key in _MODEL):
        return
    # A prompt within a solver is of the kind "prompt"; any name within a dataset's parameters is of the kind "dataset".
    own_kind = _KINDS.get(key, kind) if kind_is_open else kind
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from _nested(
                own_kind, name, f"{path}.{name}", left=left.get(name), right=right.get(name)
            )
        return
    both_empty = _is_empty(left) and _is_empty(right)
    if left != right and not both_empty:
        yield SettingDifference(own_kind, path, left, candidate=right)


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _sizes(left: JsonDict, right: JsonDict) -> Iterator[SettingDifference]:
    """Differences of the shard and of the dataset's size."""
    baseline_shard = _shard_words(left)
    candidate_shard = _shard_words(right)
    if baseline_shard != candidate_shard:
        yield SettingDifference("size", "shard", baseline_shard, candidate=candidate_shard)
    baseline_size = (left.get("shuffle") or {}).get("ds_full_size")
    candidate_size = (right.get("shuffle") or {}).get("ds_full_size")
    if baseline_size and candidate_size and baseline_size != candidate_size:
        yield SettingDifference(
            "dataset", "number of problems", baseline_size, candidate=candidate_size
        )


def _shard_words(config: JsonDict) -> str | None:
    """The shard of a configuration, such as "2 of 8"; None without shards."""
    shard = as_dict(config.get("shard"))
    if not shard:
        return None
    return f"{shard.get('idx')} of {shard.get('total')}"


def _fingerprints(
    left: JsonDict, right: JsonDict, named: list[SettingDifference]
) -> Iterator[SettingDifference]:
    """Fingerprints that differ without a setting in ``named`` that explains it."""
    baseline_fingerprints = left.get("fingerprints") or {}
    candidate_fingerprints = right.get("fingerprints") or {}
    for key, kind in _FINGERPRINTS.items():
        already_named = any(
            difference.kind == kind or difference.what.startswith(f"{key}.") for difference in named
        )
        if already_named:
            continue
        baseline_hash = baseline_fingerprints.get(key)
        candidate_hash = candidate_fingerprints.get(key)
        if baseline_hash and candidate_hash and baseline_hash != candidate_hash:
            yield SettingDifference(
                kind,
                f"{key} fingerprint",
                str(baseline_hash)[:8],
                candidate=str(candidate_hash)[:8],
            )


def caveats(
    runs: tuple[Bundle, Bundle],
    rows: tuple[RowTable, RowTable],
    pairing: Pairing,
    differences: Sequence[SettingDifference],
) -> list[str]:
    """Warnings about the runs, the problems that did not pair, and the settings that differ.

    Args:
        runs: Baseline and candidate.
        rows: Their rows.
        pairing: Their paired problems.
        differences: The settings that differ.
    """
    warnings: list[str] = []
    for side_name, run, side_rows in zip(WORDS, runs, rows, strict=True):
        warnings += _run_warnings(side_name, run, side_rows)
    warnings += _orders_of_stopped_runs(runs)
    warnings += pairing.warnings
    warnings += _left_out(pairing)
    warnings += _uneven_failures(runs, rows)
    if len(pairing):
        warnings += _asked_differently(*rows, pairing)
        if all(difference.what != "repeats" for difference in differences):
            warnings += _uneven_answers(pairing)
    warnings += [str(difference) for difference in differences]
    warnings += unstated(*runs)
    return warnings


def _orders_of_stopped_runs(runs: tuple[Bundle, Bundle]) -> Iterator[str]:
    """The warning about two runs that their rules stopped, if their problems came in different orders."""
    if any(spending_of(run.stopped) != STOPPED for run in runs):
        return
    baseline_seed, candidate_seed = (run.config.get("shuffle_seed") for run in runs)
    if baseline_seed != candidate_seed:
        yield (
            f"rules stopped both runs, in different orders (shuffle_seed {baseline_seed}, {candidate_seed}): which "
            "problems they share depends on both, and no interval quite allows for that"
        )


def _uneven_answers(pairing: Pairing) -> Iterator[str]:
    """The warning about different numbers of answers per problem."""
    baseline_answers, candidate_answers = (float(side.answers.mean()) for side in pairing.sides)
    tolerance = 0.1 * min(baseline_answers, candidate_answers)
    if abs(baseline_answers - candidate_answers) > tolerance:
        yield f"answers per problem: {baseline_answers:.3g} in the baseline, {candidate_answers:.3g} in the candidate"


def _run_warnings(side_name: str, run: Bundle, rows: RowTable) -> Iterator[str]:
    """Warnings about one run: missing or malformed rows, an early stop, unusable noise, tampering, empty answers."""
    if not len(rows):
        yield f"{side_name} has no rows: {run.results}"
    stop_rule = rule_words(run.stopped)
    if stop_rule:
        yield f"{side_name} had a stop rule ({stop_rule}); the interval allows for its looks, the tests do not"
    elif run.stop_reason:
        yield f"{side_name} did not run to its end: {run.stop_reason}"
    for note in run.notes:
        yield f"{side_name}: {note}"
    yield from noise_notes(side_name, run)
    tampering = tampering_of(rows)
    if tampering is not None:
        if (rows.reward[tampered(rows)] == 0).all():
            yield f"{side_name}: {counted(tampering.tampered, 'row')} that reached for the judge (tamper), counted as 0"
        yield f"{side_name}: {tampering.words}"
    if rows.unanswered_share > _MANY_UNANSWERED:
        yield unanswered_words(side_name, rows)
    if rows.malformed:
        yield f"{side_name}: {counted(rows.malformed, 'malformed line')}, left out"


def unanswered_words(side_name: str, rows: RowTable) -> str:
    """The warning about answers that are empty or filtered."""
    return f"{side_name}: {rows.unanswered_share:.1%} of the answers are empty or content-filtered"


def _left_out(pairing: Pairing) -> Iterator[str]:
    """Warnings about problems that did not pair or have no scored answer."""
    if pairing.only_baseline or pairing.only_candidate:
        unpaired = f"{pairing.only_baseline:,} only in the baseline, {pairing.only_candidate:,} only in the candidate"
        yield f"{counted(len(pairing), 'problem')} paired; {unpaired}"
    baseline_unscored = pairing.baseline.unscored
    candidate_unscored = pairing.candidate.unscored
    if baseline_unscored or candidate_unscored:
        counts = f"{baseline_unscored:,} in the baseline, {candidate_unscored:,} in the candidate"
        yield f"problems without a scored answer are left out: {counts}"


def _uneven_failures(runs: tuple[Bundle, Bundle], rows: tuple[RowTable, RowTable]) -> Iterator[str]:
    """The warning that many more rows failed on one side than on the other; failed rows are not in the scores."""
    failed_counts = missing_rows(runs, rows)
    failed_shares: list[float] = []
    failures: list[str] = []
    scores: list[float] = []
    for side_name, run, side_rows, failed in zip(WORDS, runs, rows, failed_counts, strict=True):
        planned = max(planned_rows(run, side_rows), 1)
        failed_shares.append(failed / planned)
        failures.append(f"{counted(failed, 'row')} failed in {side_name}{_causes(side_rows)}")
        scores.append(float(side_rows.reward[side_rows.scored].sum()) / planned)
    baseline_share, candidate_share = failed_shares
    if abs(baseline_share - candidate_share) > _UNEVEN:
        yield f"{', '.join(failures)}: with failed rows as 0 the scores are {scores[0]:.4f} and {scores[1]:.4f}"


def _causes(rows: RowTable) -> str:
    """The most frequent causes of failed rows, in brackets."""
    codes, counts = np.unique(rows.cause[~rows.scored], return_counts=True)
    ranked = sorted(zip(counts.tolist(), codes.tolist(), strict=True), reverse=True)
    causes: list[str] = []
    for count, code in ranked[:_MOST_CAUSES]:
        causes.append(f"{count:,} {rows.causes[code] or 'unknown'}")
    return f" ({', '.join(causes)})" if causes else ""


def _asked_differently(baseline: RowTable, candidate: RowTable, pairing: Pairing) -> Iterator[str]:
    """Warnings about prompts and expected answers that differ on paired problems, by their hashes."""
    baseline_rows = pairing.baseline.first
    candidate_rows = pairing.candidate.first
    paired = len(pairing)
    prompts = _differing(baseline.prompt[baseline_rows], candidate.prompt[candidate_rows])
    if prompts:
        yield f"prompts differ on {prompts:,} of {paired:,} paired problems"
    expected = _differing(baseline.expected[baseline_rows], candidate.expected[candidate_rows])
    if expected:
        yield (
            f"dataset differs: expected answers are not the same on {expected:,} of {paired:,} "
            "paired problems"
        )


def _differing(left: np.ndarray, right: np.ndarray) -> int:
    """How many hashes differ; 0 stands for a row without one."""
    both_known = (left != 0) & (right != 0)
    return int(np.count_nonzero((left != right) & both_known))
