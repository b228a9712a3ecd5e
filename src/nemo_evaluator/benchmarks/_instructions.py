"""Following instructions: run the checkers of a row, strictly and with harmless wrapping forgiven."""

from collections.abc import Callable, Iterable, Mapping

from nemo_evaluator.benchmarks._rows import kept
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.scoring import Score, ScorerInput, strip_reasoning

# Whether a text follows an instruction with these arguments.
Check = Callable[[str, JsonDict], bool]


def named(family: str, *checks: Check) -> dict[str, Check]:
    """Checkers by the name of their instruction: the family's name, a colon and the name of the function."""
    return {f"{family}:{check.__name__}": check for check in checks}


def prepare(row: JsonDict) -> JsonDict:
    """The instructions of a row with the arguments that are set: the hub pads every entry with nulls.

    The category is the family of the first instruction.
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
    """Correct when every instruction is followed to the letter.

    The loose verdict forgives an introduction, a closing line and markdown emphasis, for each instruction by itself.

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
    forms = _loose_forms(response)
    strict_verdicts: list[bool] = []
    loose_verdicts: list[bool] = []
    for name, instruction_arguments in zip(names, arguments, strict=True):
        check = checks[name]
        strict = bool(text) and check(response, instruction_arguments)
        loose = strict or any(check(form, instruction_arguments) for form in forms)
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
    """The response whole, without its first line, its last line and both; each with and without asterisks."""
    lines = response.split("\n")
    forms: list[str] = []
    for part in (lines, lines[1:], lines[:-1], lines[1:-1]):
        text = "\n".join(part).strip()
        if text:
            forms.append(text)
            forms.append(text.replace("*", ""))
    return forms


def summary(details: Iterable[JsonDict]) -> dict[str, float]:
    """Accuracy by prompt and by instruction, strict and loose; empty when no row was checked."""
    rows = [detail for detail in details if "followed" in detail]
    strict: list[bool] = []
    loose: list[bool] = []
    for row in rows:
        strict.extend(row["followed"])
        loose.extend(row["followed_loose"])
    if not strict:
        return {}
    strict_prompts = sum(all(row["followed"]) for row in rows)
    loose_prompts = sum(all(row["followed_loose"]) for row in rows)
    return {
        "prompt_strict": strict_prompts / len(rows),
        "prompt_loose": loose_prompts / len(rows),
        "instruction_strict": sum(strict) / len(strict),
        "instruction_loose": sum(loose) / len(loose),
    }
