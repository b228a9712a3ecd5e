"""BIG-Bench Hard: 27 reasoning tasks; each is judged in the form of its own answers."""

from __future__ import annotations

import re
from typing import Final

from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import ChainedRows, MappedRows, Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, ScorerInput, benchmark, scorer
from nemo_evaluator.scoring import Score, exact_match, found, multichoice_regex, numeric_match, readable
from nemo_evaluator.scoring.text import claimed_texts

TASKS: Final = (
    "boolean_expressions", "causal_judgement", "date_understanding", "disambiguation_qa", "dyck_languages",
    "formal_fallacies", "geometric_shapes", "hyperbaton", "logical_deduction_five_objects",
    "logical_deduction_seven_objects", "logical_deduction_three_objects", "movie_recommendation",
    "multistep_arithmetic_two", "navigate", "object_counting", "penguins_in_a_table", "reasoning_about_colored_objects",
    "ruin_names", "salient_translation_error_detection", "snarks", "sports_understanding", "temporal_sequences",
    "tracking_shuffled_objects_five_objects", "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects", "web_of_lies", "word_sorting",
)  # fmt: skip
COT: Final = "cot_3shot"
# The three worked examples of each task, as the paper wrote them.
WORKED: Final = "hf://Joschka/big_bench_hard?config=few_shot_prompts&split=few_shot_prompts"
_OPTION: Final = re.compile(r"^\(([A-Z])\)\s*(.*)$", re.MULTILINE)
_LETTER: Final = re.compile(r"\(?([A-Z])\)?")
_BRACKETS: Final = re.compile(r"[][(){}<>\s]+")
_WORDS: Final = {"true": ("true", "false"), "yes": ("yes", "no"), "valid": ("valid", "invalid")}


def dataset(tasks: list[str] | str, protocol: str) -> Rows:
    """The problems of some tasks, one task after another; with the worked examples where the protocol has them."""
    chosen = [tasks] if isinstance(tasks, str) else tasks
    unknown = [task for task in chosen if task not in TASKS]
    if unknown:
        raise UsageError(f"bbh has no task {unknown[0]!r}", hint=f"it has: {', '.join(TASKS)}")
    worked = (
        {row["dataset_name"]: row["chain_of_thought_prompt"].strip() for row in open_rows(WORKED)}
        if (protocol == COT)
        else {}
    )
    return ChainedRows(_one(task, worked.get(task, "")) for task in chosen)


def _one(task: str, worked: str) -> Rows:
    rows = open_rows(f"hf://lukaemon/bbh?config={task}&split=test")
    return MappedRows(rows, lambda row, idx: {**row, "task": task, "worked": worked})


def prepare(row: JsonDict) -> JsonDict:
    """The task is the category; lettered options are kept for the scorer."""
    return {
        "input": row["input"],
        "target": row["target"].strip(),
        "options": dict(_OPTION.findall(row["input"])),
        "category": row["task"],
        "worked": row["worked"],
    }


@benchmark(
    name="bbh",
    dataset=dataset,
    prompt=(
        "Solve the following problem step by step. Write a last line of the form 'Answer: $ANSWER' (without quotes), "
        "with the letter if there are options.\n\n{input}"
    ),
    prepare_row=prepare,
    carried=("options", "worked"),
    protocols={COT: {"prompt": "{worked}\n\nQ: {input}\nA: Let's think step by step."}},
    params={"tasks": list(TASKS)},
    info=BenchmarkInfo(
        title="BIG-Bench Hard",
        group="reasoning",
        size=6511,
        scorer="by task: letter, word, number, brackets, word list",
        license="MIT",
        source="https://huggingface.co/datasets/lukaemon/bbh",
        columns=("input", "target"),
        categories="task (27)",
        params={
            "tasks": "one of, or a list of, the 27 tasks",
            "protocol": f"`default`, or `{COT}`: the three worked examples of the paper before each problem "
            "(from the hub's Joschka/big_bench_hard, which a mirror must hold too)",
        },
        published=Published(
            protocol=(
                "3 worked examples with chain of thought (Suzgun et al., 2022), exact match of what "
                'follows "the answer is".'
            ),
            differs=(
                "No examples, free reasoning, the answer on a last line; letters, words, numbers, "
                "brackets and lists of words are compared in their own form, not by exact match."
            ),
            comparable="nearly with `protocol: cot_3shot`, whose questions are the published ones; no by default",
        ),
    ),
)
@scorer
def bbh(sample: ScorerInput) -> Score:
    """Judge by the form of the target."""
    target, task = str(sample.target), sample.metadata["category"]
    if task == "dyck_languages":
        return brackets(sample)
    if task == "word_sorting":
        return word_list(sample)
    if _LETTER.fullmatch(target):
        return letter(sample)
    words = next((pair for pair in _WORDS.values() if target.lower() in pair), None)
    if words is not None:
        return one_of(sample, words)
    return numeric_match(sample) if re.fullmatch(r"-?\d+", target) else exact_match(sample)


def letter(sample: ScorerInput) -> Score:
    """The letter picked; some targets of upstream have lost their parentheses."""
    labels = "".join(sample.metadata["options"]) or "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return multichoice_regex(sample, labels=labels)


def _announced(sample: ScorerInput) -> str | None:
    text = readable(sample.response, sample.question)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return next(claimed_texts(text), None) or (lines[-1] if lines else None)


def brackets(sample: ScorerInput) -> Score:
    """The closing brackets, spaces aside; a response may repeat the given part before them."""
    text = readable(sample.response, sample.question)
    announced = next(claimed_texts(text), "")
    text = (announced if _BRACKETS.search(announced) else text).replace("`", "").replace("*", "")
    last = next((line for line in reversed(text.splitlines()) if re.search(r"[][(){}<>]", line)), "")
    runs = _BRACKETS.findall(last.rpartition(":")[2] if ":" in last else last)
    said = "".join(max(runs, key=len).split()) if runs else None
    wanted = "".join(str(sample.target).split())
    given = "".join(sample.metadata["input"].rpartition("Input:")[2].split()) if "input" in sample.metadata else ""
    return found(said, said in (wanted, given + wanted))


def word_list(sample: ScorerInput) -> Score:
    """The words in order, whatever stands between them."""
    said = _announced(sample)
    if said is None:
        return found(None, False)
    words = [
        word
        for word in re.split(r"[\s,;>→]+", said.lower().strip("*`_.\"' "))
        if word and not re.fullmatch(r"\d+[.)]", word)
    ]
    return found(" ".join(words), words == str(sample.target).lower().split())
