"""BIG-Bench Hard: 27 reasoning tasks; each is judged in the form of its own answers."""

import re
from typing import Final

from nemo_evaluator.benchmarks._declared import builtin, declared
from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import MappedRows, Rows, open_rows
from nemo_evaluator.scoring import (
    Score,
    ScorerInput,
    exact_match,
    found,
    multichoice_regex,
    numeric_match,
    readable,
)
from nemo_evaluator.scoring.text import claimed_texts

TASKS: Final = tuple(declared("bbh")["own"]["tasks"])
COT: Final = "cot_3shot"
# The three worked examples of each task, as the paper wrote them.
WORKED: Final = "hf://Joschka/big_bench_hard?config=few_shot_prompts&split=few_shot_prompts"
_OPTION: Final = re.compile(r"^\(([A-Z])\)\s*(.*)$", re.MULTILINE)
_LETTER: Final = re.compile(r"\(?([A-Z])\)?")
_BRACKETS: Final = re.compile(r"[][(){}<>\s]+")
_WORDS: Final = (("true", "false"), ("yes", "no"), ("valid", "invalid"))


def dataset(tasks: list[str] | str, protocol: str) -> Rows:
    """The problems of some tasks, one task after another; with the worked examples where the protocol has them."""
    prompts = open_rows(WORKED) if protocol == COT else ()
    worked = {row["dataset_name"]: row["chain_of_thought_prompt"].strip() for row in prompts}
    rows = configs("lukaemon/bbh", "task", tasks, split="test", what="bbh has no task", known=TASKS)
    return MappedRows(rows, lambda row, idx: {**row, "worked": worked.get(row["task"], "")})


def prepare(row: JsonDict) -> JsonDict:
    """The task is the category; lettered options are kept for the scorer."""
    options = dict(_OPTION.findall(row["input"]))
    return kept(row, "input", "worked") | {
        "target": row["target"].strip(),
        "options": options,
        "category": row["task"],
    }


@builtin("bbh", dataset=dataset, prepare_row=prepare, params={"tasks": list(TASKS)})
def bbh(sample: ScorerInput) -> Score:
    """Judge by the form of the target."""
    target = str(sample.target)
    task = sample.metadata["category"]
    if task == "dyck_languages":
        return brackets(sample)
    if task == "word_sorting":
        return word_list(sample)
    if _LETTER.fullmatch(target):
        # Some targets of upstream have lost their parentheses.
        return multichoice_regex(sample, labels="".join(sample.metadata["options"]) or LETTERS)
    words = next((pair for pair in _WORDS if target.lower() in pair), None)
    if words is not None:
        return one_of(sample, words)
    if re.fullmatch(r"-?\d+", target):
        return numeric_match(sample)
    return exact_match(sample)


def brackets(sample: ScorerInput) -> Score:
    """The closing brackets, spaces aside; a response may repeat the given part before them."""
    text = readable(sample.response, sample.question)
    announced = next(claimed_texts(text), "")
    text = (announced if _BRACKETS.search(announced) else text).replace("`", "").replace("*", "")
    last = next(
        (line for line in reversed(text.splitlines()) if re.search(r"[][(){}<>]", line)), ""
    )
    runs = _BRACKETS.findall(last.rpartition(":")[2] if ":" in last else last)
    if runs:
        said: str | None = "".join(max(runs, key=len).split())
    else:
        said = None
    wanted = "".join(str(sample.target).split())
    if "input" in sample.metadata:
        given = "".join(sample.metadata["input"].rpartition("Input:")[2].split())
    else:
        given = ""
    return found(said, said in (wanted, given + wanted))


def word_list(sample: ScorerInput) -> Score:
    """The words in order, whatever stands between them."""
    text = readable(sample.response, sample.question)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    said = next(claimed_texts(text), None) or (lines[-1] if lines else None)
    if said is None:
        return found(None, False)
    parts = re.split(r"[\s,;>→]+", said.lower().strip("*`_.\"' "))
    words = [word for word in parts if word and not re.fullmatch(r"\d+[.)]", word)]
    return found(" ".join(words), words == str(sample.target).lower().split())
