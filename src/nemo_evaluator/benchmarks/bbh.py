"""BIG-Bench Hard: 27 reasoning tasks; each is judged in the form of its own answers."""

import re
from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import MappedRows, Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Independent, Published, benchmark
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

TASKS: Final = (
    "boolean_expressions",
    "causal_judgement",
    "date_understanding",
    "disambiguation_qa",
    "dyck_languages",
    "formal_fallacies",
    "geometric_shapes",
    "hyperbaton",
    "logical_deduction_five_objects",
    "logical_deduction_seven_objects",
    "logical_deduction_three_objects",
    "movie_recommendation",
    "multistep_arithmetic_two",
    "navigate",
    "object_counting",
    "penguins_in_a_table",
    "reasoning_about_colored_objects",
    "ruin_names",
    "salient_translation_error_detection",
    "snarks",
    "sports_understanding",
    "temporal_sequences",
    "tracking_shuffled_objects_five_objects",
    "tracking_shuffled_objects_seven_objects",
    "tracking_shuffled_objects_three_objects",
    "web_of_lies",
    "word_sorting",
)
COT: Final = "cot_3shot"
# The three worked examples of each task, as the paper wrote them.
WORKED: Final = "hf://Joschka/big_bench_hard?config=few_shot_prompts&split=few_shot_prompts"
_OPTION: Final = re.compile(r"^\(([A-Z])\)\s*(.*)$", re.MULTILINE)
_LETTER: Final = re.compile(r"\(?([A-Z])\)?")
_BRACKET: Final = re.compile(r"[][(){}<>]")
_BRACKETS: Final = re.compile(r"[][(){}<>\s]+")
# One word of a list: "1. apple", "- **apple**", "| 1 | apple |", or the word alone.
_ITEM: Final = re.compile(
    r"\s*(?:[-*•]\s+|\d{1,3}[.)]\s*|\|\s*(?:\d{1,3}\s*\|\s*)?)?[*_`\"']*([^\W\d_][\w'’.&/-]*?)[*_`\"',.;]*\s*\|?\s*"
)
# A word of a line of words; the numbers of its items and the signs between them are none.
_WORD: Final = re.compile(r"[^\W\d_](?:[\w'’.&/-]*\w)?")
_WORDS: Final = (("true", "false"), ("yes", "no"), ("valid", "invalid"))


def dataset(tasks: list[str] | str, protocol: str) -> Rows:
    """Load the problems of some tasks, one task after another.

    Args:
        tasks: The name of a task, or several names.
        protocol: The protocol; ``cot_3shot`` adds the worked examples of the paper to each problem.
    """
    worked_examples: dict[str, str] = {}
    if protocol == COT:
        for prompt_row in open_rows(WORKED):
            prompt = prompt_row["chain_of_thought_prompt"].strip()
            worked_examples[prompt_row["dataset_name"]] = prompt
    rows = configs("lukaemon/bbh", "task", tasks, split="test", what="bbh has no task", known=TASKS)
    return MappedRows(
        rows, lambda row, idx: {**row, "worked": worked_examples.get(row["task"], "")}
    )


def prepare(row: JsonDict) -> JsonDict:
    """Keep the problem and its lettered options for the scorer; the task is the category."""
    options = dict(_OPTION.findall(row["input"]))
    return kept(row, "input", "worked") | {
        "target": row["target"].strip(),
        "options": options,
        "category": row["task"],
    }


SELF_TEST: Final = SelfTest(mirror_rows=6511, answers="form of the target")


@benchmark(
    "bbh",
    dataset=dataset,
    prepare_row=prepare,
    prompt=(
        "Solve the following problem step by step. Write a last line of the form 'Answer: "
        "$ANSWER' (without quotes), with the letter if there are options.\n"
        "\n"
        "{input}"
    ),
    carried=("options", "worked"),
    params={"tasks": list(TASKS)},
    protocols={
        "cot_3shot": {
            "prompt": "{worked}\n\nQ: {input}\nA: Let's think step by step.",
        },
    },
    cluster=Independent("each problem was drawn on its own; the 27 tasks are categories"),
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
            "protocol": (
                "`default`, or `cot_3shot`: the three worked examples of the paper before each "
                "problem (from the hub's Joschka/big_bench_hard, which a mirror must hold too)"
            ),
        },
        published=Published(
            protocol=(
                "3 worked examples with chain of thought (Suzgun et al., 2022), exact match of "
                'what follows "the answer is".'
            ),
            differs=(
                "No examples, free reasoning, the answer on a last line; letters, words, "
                "numbers, brackets and lists of words are compared in their own form, not by "
                "exact match."
            ),
            comparable=(
                "nearly with `protocol: cot_3shot`, whose questions are the published ones; no "
                "by default"
            ),
        ),
    ),
)
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
    """Score whether the response ends in the right closing brackets, spaces aside.

    The answer is the longest run of brackets in the last line that has any; it may repeat those of the problem first.
    """
    answer = _last_brackets(sample)
    target = "".join(str(sample.target).split())
    opened = ""
    if "input" in sample.metadata:
        opened = "".join(sample.metadata["input"].rpartition("Input:")[2].split())
    return found(answer, answer in (target, opened + target))


def _last_brackets(sample: ScorerInput) -> str | None:
    """Find the longest run of brackets in the last line that has any, of the announced answer or of all the text."""
    text = readable(sample.response, sample.question)
    announced = next(claimed_texts(text), "")
    if _BRACKETS.search(announced):
        text = announced
    for line in reversed(text.replace("`", "").replace("*", "").splitlines()):
        if _BRACKET.search(line):
            runs = _BRACKETS.findall(line.rpartition(":")[2])
            return "".join(max(runs, key=len).split()) if runs else None
    return None


def word_list(sample: ScorerInput) -> Score:
    """Score whether the response lists the target's words in order, whatever separates them."""
    list_text = _list_text(readable(sample.response, sample.question))
    if list_text is None:
        return found(None, False)
    answer_words = _WORD.findall(list_text.lower())
    return found(" ".join(answer_words), answer_words == str(sample.target).lower().split())


def _list_text(text: str) -> str | None:
    """The list with one word per line that ends a response, else the announced answer, else the last line."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        is_fence = line.strip().startswith("```")
        if line.strip() and not is_fence:
            lines.append(line)
    items: list[str] = []
    for line in reversed(lines):
        item = _ITEM.fullmatch(line)
        if item is None:
            break
        items.append(item[1])
    if len(items) > 1:
        return " ".join(reversed(items))
    announced = next(claimed_texts(text), None)
    if announced:
        return announced
    if not lines:
        return None
    # "The sorted words are: apple, pear."
    return lines[-1].rpartition(":")[2]
