"""Following instructions: run the checkers of a row, strictly and with harmless wrapping forgiven."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import Score, ScorerInput, strip_reasoning

Check = Callable[[str, JsonDict], bool]


def named(family: str, *checks: Check) -> dict[str, Check]:
    """Checkers by the name of their instruction: its family's, and that of the function."""
    return {f"{family}:{check.__name__}": check for check in checks}


def prepare(row: JsonDict) -> JsonDict:
    """The instructions with the arguments that are set: the hub pads every entry with nulls."""
    arguments: list[dict[Any, Any]] = []
    for one in row["kwargs"]:
        arguments.append({key: value for key, value in (one or {}).items() if value is not None})
    family = row["instruction_id_list"][0].partition(":")[0]
    return kept(row, "key", "prompt", "instruction_id_list") | {
        "arguments": arguments,
        "category": family,
    }


def check_all(sample: ScorerInput, checks: Mapping[str, Check]) -> Score:
    """Correct when every instruction is followed to the letter. The loose verdict forgives an introduction, a closing
    line and markdown emphasis, each instruction by itself."""
    ids: list[str] = sample.metadata["instruction_id_list"]
    arguments: list[JsonDict] = sample.metadata["arguments"]
    unknown = [name for name in ids if name not in checks]
    if unknown:
        raise UsageError(f"no checker for the instruction {unknown[0]!r}")
    response = strip_reasoning(sample.response)
    said = response.strip()
    lines = response.split("\n")
    cuts = [
        text.strip()
        for text in (response, *("\n".join(part) for part in (lines[1:], lines[:-1], lines[1:-1])))
    ]
    forms: list[str] = []
    for text in cuts:
        if text:
            for form in (text, text.replace("*", "")):
                forms.append(form)
    followed: list[bool] = []
    for name, args in zip(ids, arguments, strict=True):
        followed.append(bool(said) and checks[name](response, args))
    loose: list[bool] = []
    for name, args, right in zip(ids, arguments, followed, strict=True):
        loose.append(right or any(checks[name](form, args) for form in forms))
    score: Score = {
        "correct": all(followed),
        "loose": all(loose),
        "followed": followed,
        "followed_loose": loose,
    }
    if said:
        return {**score, "extracted": said[:200]}
    return {**score, "extracted": None, "unparsed": True}


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Accuracy by prompt and by instruction, strict and loose."""
    rows = [detail for detail in details if "followed" in detail]
    strict: list[Any] = []
    for row in rows:
        for right in row["followed"]:
            strict.append(right)
    loose: list[Any] = []
    for row in rows:
        for right in row["followed_loose"]:
            loose.append(right)
    if not strict:
        return {}
    return {
        "prompt_strict": sum(all(row["followed"]) for row in rows) / len(rows),
        "prompt_loose": sum(all(row["followed_loose"]) for row in rows) / len(rows),
        "instruction_strict": sum(strict) / len(strict),
        "instruction_loose": sum(loose) / len(loose),
    }
