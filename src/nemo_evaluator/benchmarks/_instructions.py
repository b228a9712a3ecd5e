"""Following instructions: run the checkers of a row, strictly and with harmless wrapping forgiven."""

from collections.abc import Callable, Iterable, Mapping

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import Score, ScorerInput, strip_reasoning

# Whether a text follows an instruction with these arguments.
Check = Callable[[str, JsonDict], bool]


def named(family: str, *checks: Check) -> dict[str, Check]:
    """Name each checker by its family and function: ``family:function``.

    Args:
        family: The family of instructions, such as ``format``.
        checks: Functions that are named like their instructions.

    Returns:
        The checkers by the name of their instruction.
    """
    return {f"{family}:{check.__name__}": check for check in checks}


def prepare(row: JsonDict) -> JsonDict:
    """Keep a row's prompt and instructions, with only the arguments that are set.

    The dataset pads each instruction's arguments with nulls; they are dropped. The category is the family of the first
    instruction.
    """
    arguments: list[JsonDict] = []
    for padded in row["kwargs"]:
        arguments.append(_without_nulls(padded or {}))
    columns = kept(row, "key", "prompt", "instruction_id_list")
    columns["arguments"] = arguments
    columns["category"] = row["instruction_id_list"][0].partition(":")[0]
    return columns


def _without_nulls(padded: JsonDict) -> JsonDict:
    return {key: value for key, value in padded.items() if value is not None}


def check_all(sample: ScorerInput, checks: Mapping[str, Check]) -> Score:
    """Score a response against all instructions of its row, strictly and loosely.

    The answer is correct if every instruction is followed strictly. The loose verdict also accepts an instruction that
    is followed once the introduction, the closing line or markdown emphasis is removed.

    Args:
        sample: The answer with its instructions and their arguments.
        checks: The checkers, by the name of their instruction.

    Raises:
        UsageError: An instruction has no checker.
    """
    names: list[str] = sample.metadata["instruction_id_list"]
    arguments: list[JsonDict] = sample.metadata["arguments"]
    for name in names:
        if name not in checks:
            raise UsageError(f"no checker for the instruction {name!r}")
    response = strip_reasoning(sample.response)
    text = response.strip()
    loose_forms = _loose_forms(response)
    strict_verdicts: list[bool] = []
    loose_verdicts: list[bool] = []
    for name, instruction_arguments in zip(names, arguments, strict=True):
        check = checks[name]
        strict = bool(text) and check(response, instruction_arguments)
        loose = strict or _follows_any(loose_forms, check, instruction_arguments)
        strict_verdicts.append(strict)
        loose_verdicts.append(loose)
    score: Score = {
        "correct": all(strict_verdicts),
        "loose": all(loose_verdicts),
        "followed": strict_verdicts,
        "followed_loose": loose_verdicts,
        "extracted": text[:200] or None,
    }
    if not text:
        score["unparsed"] = True
    return score


def _follows_any(forms: Iterable[str], check: Check, arguments: JsonDict) -> bool:
    return any(check(form, arguments) for form in forms)


def _loose_forms(response: str) -> list[str]:
    """List the variants of a response that the loose verdict accepts.

    They are the whole response, and the response without its first line, its last line and both; each with and without
    asterisks. Empty variants are left out.
    """
    lines = response.split("\n")
    variants: list[str] = []
    for kept_lines in (lines, lines[1:], lines[:-1], lines[1:-1]):
        variant = "\n".join(kept_lines).strip()
        if variant:
            variants.append(variant)
            variants.append(variant.replace("*", ""))
    return variants


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Compute strict and loose accuracy, by prompt and by instruction; empty if no row was checked."""
    strict_by_prompt: list[bool] = []
    loose_by_prompt: list[bool] = []
    strict_by_instruction: list[bool] = []
    loose_by_instruction: list[bool] = []
    for row in details:
        if "followed" in row:
            strict_by_prompt.append(all(row["followed"]))
            loose_by_prompt.append(all(row["followed_loose"]))
            strict_by_instruction += row["followed"]
            loose_by_instruction += row["followed_loose"]
    if not strict_by_instruction:
        return {}
    return {
        "prompt_strict": _share(strict_by_prompt),
        "prompt_loose": _share(loose_by_prompt),
        "instruction_strict": _share(strict_by_instruction),
        "instruction_loose": _share(loose_by_instruction),
    }


def _share(verdicts: list[bool]) -> float:
    return sum(verdicts) / len(verdicts)
