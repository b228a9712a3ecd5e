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
        loose = strict or any(
            check(loose_form, instruction_arguments) for loose_form in loose_forms
        )
        strict_verdicts.append(strict)
        loose_verdicts.append(loose)
    score: Score = {
        "correct": all(strict_verdicts),
        "loose": all(loose_verdicts),
        "followed": strict_verdicts,
        "followed_loose": loose_verdicts,
    }
    if not text:
        return {**score, "extracted": None, "unparsed": True}
    return {**score, "extracted": text[:200]}


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
    rows = [detail for detail in details if "followed" in detail]
    strict_verdicts: list[bool] = []
    loose_verdicts: list[bool] = []
    for row in rows:
        strict_verdicts.extend(row["followed"])
        loose_verdicts.extend(row["followed_loose"])
    if not strict_verdicts:
        return {}
    strict_prompts = sum(all(row["followed"]) for row in rows)
    loose_prompts = sum(all(row["followed_loose"]) for row in rows)
    return {
        "prompt_strict": strict_prompts / len(rows),
        "prompt_loose": loose_prompts / len(rows),
        "instruction_strict": sum(strict_verdicts) / len(strict_verdicts),
        "instruction_loose": sum(loose_verdicts) / len(loose_verdicts),
    }
