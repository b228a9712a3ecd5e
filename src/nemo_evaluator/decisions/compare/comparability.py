"""Whether two runs asked the same thing in the same way, from what their bundles and rows say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.runs.bundle import Bundle

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
    **dict.fromkeys(("system_prompt", "instruction_template", "template", "fewshot", "prompt"), "prompt"),
    **dict.fromkeys(("scorers", "scoring", "scorer", "judge"), "scorer"),
    "generation": "generation",
    "solver": "solver",
}
# Which model answered, and where, is what a comparison is about; the rest says nothing about what was asked.
_MODEL: Final = frozenset({"service", "model", "model_id", "base_url", "model_url", "url"})
_ASIDE: Final = frozenset({"benchmark", "fingerprints", "resumed", "min_coverage", "shuffle", "shard"})
# Settings without which two runs cannot be told to be alike.
_TELLING: Final = ("generation", "solver", "fingerprints")


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that is not the same on both sides."""

    kind: Kind
    what: str
    baseline: Any
    candidate: Any

    def __str__(self) -> str:
        if self.baseline is None and self.candidate is None:
            return f"{self.kind} differs: {self.what}"
        return f"{self.kind} differs: {self.what} is {_show(self.baseline)} and {_show(self.candidate)}"


def differences(baseline: Bundle, candidate: Bundle) -> list[Difference]:
    """What the two bundles say differently; the model and its address may differ, that is the point.

    A key that one of them does not have is not a difference but a gap: see ``unstated``.
    """
    found: list[Difference] = []
    if baseline.name != candidate.name:
        found.append(Difference("dataset", "benchmark", baseline.name, candidate.name))
    left, right = baseline.config, candidate.config
    for key in sorted((left.keys() & right.keys()) - _ASIDE):
        found += _nested("setting", key, key, left[key], right[key])
    found += _sizes(left, right)
    found += _fingerprints(left, right, found)
    versions = baseline.sdk_version, candidate.sdk_version
    if all(versions) and versions[0] != versions[1]:
        found.append(Difference("version", "nel", *versions))
    return found


def unstated(baseline: Bundle, candidate: Bundle) -> list[str]:
    """Which of the settings that matter only one of the bundles states."""
    gaps = [key for key in _TELLING if (key in baseline.config) != (key in candidate.config)]
    if not gaps:
        return []
    return [f"whether {', '.join(gaps)} are the same is not known: only one of the bundles states them"]


def _nested(kind: Kind, key: str, path: str, left: Any, right: Any) -> Iterator[Difference]:
    outer = kind in ("setting", "solver")
    if key.startswith("_") or (outer and key in _MODEL):
        return
    # A prompt within a solver is about prompts; a name below a dataset's parameters is about the dataset.
    inner = _KINDS.get(key, kind) if outer else kind
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from _nested(inner, name, f"{path}.{name}", left.get(name), right.get(name))
    elif left != right and not (_is_blank(left) and _is_blank(right)):
        yield Difference(inner, path, left, right)


def _is_blank(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _sizes(left: JsonDict, right: JsonDict) -> Iterator[Difference]:
    shards = [_shard(config) for config in (left, right)]
    if shards[0] != shards[1]:
        yield Difference("size", "shard", *shards)
    rows = [(config.get("shuffle") or {}).get("ds_full_size") for config in (left, right)]
    if all(rows) and rows[0] != rows[1]:
        yield Difference("dataset", "number of problems", *rows)


def _shard(config: JsonDict) -> str | None:
    shard = config.get("shard")
    return f"{shard.get('idx')} of {shard.get('total')}" if isinstance(shard, dict) else None


def _fingerprints(left: JsonDict, right: JsonDict, known: list[Difference]) -> Iterator[Difference]:
    one, two = left.get("fingerprints") or {}, right.get("fingerprints") or {}
    for key, kind in _FINGERPRINTS.items():
        # What is already named needs no second line.
        if any(difference.kind == kind or difference.what.startswith(f"{key}.") for difference in known):
            continue
        if one.get(key) and two.get(key) and one[key] != two[key]:
            yield Difference(kind, f"{key} fingerprint", str(one[key])[:8], str(two[key])[:8])


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
