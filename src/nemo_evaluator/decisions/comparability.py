"""Whether two runs asked the same thing in the same way, from what their bundles and rows say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np

from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.decisions.bundles import Run
from nemo_evaluator.decisions.pairing import Pairing
from nemo_evaluator.decisions.rows import Rows

Kind = Literal["prompt", "generation", "dataset", "scorer", "solver", "service", "size", "version"]

_FINGERPRINTS: Final[dict[str, Kind]] = {
    "dataset": "dataset",
    "scorer": "scorer",
    "template": "prompt",
    "solver": "solver",
    "service": "service",
}
_PROMPT_KEYS: Final = ("system_prompt", "instruction_template", "template", "fewshot", "prompt")
_KEYS: Final[dict[Kind, tuple[str, ...]]] = {
    "size": ("repeats", "max_problems", "shuffle_seed"),
    "prompt": _PROMPT_KEYS,
    "scorer": ("scorers", "scoring", "scorer"),
}
# Which model answered, and where, is what a comparison is about.
_MAY_DIFFER: Final = frozenset({"service", "model", "model_id", "base_url", "model_url", "url"})


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

    def to_dict(self) -> JsonDict:
        """The difference as JSON."""
        return asdict(self)


def differences(baseline: Run, candidate: Run) -> list[Difference]:
    """What the two bundles say differently; the model and its address may differ, that is the point."""
    found: list[Difference] = []
    if baseline.name != candidate.name:
        found.append(Difference("dataset", "benchmark", baseline.name, candidate.name))
    left, right = baseline.config, candidate.config
    found += [
        Difference(kind, key, left.get(key), right.get(key))
        for kind, keys in _KEYS.items()
        for key in keys
        if left.get(key) != right.get(key)
    ]
    found += _nested("generation", "generation", left.get("generation"), right.get("generation"))
    found += _nested("solver", "solver", left.get("solver"), right.get("solver"))
    found += _fingerprints(left, right, found)
    versions = baseline.bundle.get("sdk_version"), candidate.bundle.get("sdk_version")
    if versions[0] != versions[1]:
        found.append(Difference("version", "nel", *versions))
    return found


def _nested(kind: Kind, path: str, left: Any, right: Any) -> Iterator[Difference]:
    if not isinstance(left, dict) or not isinstance(right, dict):
        if left != right and (left or right):
            yield Difference(kind, path, left, right)
        return
    for key in sorted((left.keys() | right.keys()) - _MAY_DIFFER):
        inner: Kind = kind
        if key in _PROMPT_KEYS:
            inner = "prompt"
        elif key == "generation":
            inner = "generation"
        yield from _nested(inner, f"{path}.{key}", left.get(key), right.get(key))


def _fingerprints(left: JsonDict, right: JsonDict, known: list[Difference]) -> Iterator[Difference]:
    one, two = left.get("fingerprints") or {}, right.get("fingerprints") or {}
    for key, kind in _FINGERPRINTS.items():
        # A service is its model and address, which are meant to differ; what is already named needs no second line.
        if key == "service" or any(difference.kind == kind for difference in known):
            continue
        if key in one and key in two and one[key] != two[key]:
            yield Difference(kind, f"{key} fingerprint", one[key], two[key])


def prompt_warning(baseline: Rows, candidate: Rows, pairing: Pairing) -> str | None:
    """Whether paired problems were asked with different words."""
    if not len(pairing):
        return None
    different = baseline.prompt[pairing.baseline.first] != candidate.prompt[pairing.candidate.first]
    count = int(np.count_nonzero(different))
    return f"prompts differ on {count} of {len(pairing)} paired problems" if count else None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
