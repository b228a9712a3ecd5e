"""BIG-Bench Hard: 27 reasoning tasks; each is judged in the form of its own answers."""

import re
from typing import Final

from nemo_evaluator.benchmarks._rows import LETTERS, configs, kept
from nemo_evaluator.benchmarks._self_test import SelfTest
from nemo_evaluator.benchmarks._words import one_of
from nemo_evaluator.core.types import JsonDict
from nemo_evaluator.datasets import MappedRows, Rows, open_rows
from nemo_evaluator.environments.custom import BenchmarkInfo, Published, benchmark
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
_BRACKETS: Final = re.compile(r"[][(){}<>\s]+")
_WORDS: Final = (("true", "false"), ("yes", "no"), ("valid", "invalid"))


def dataset(tasks: list[str] | str, protocol: str) -> Rows:
    """Load the problems of some tasks, one task after another.

    Args:
        tasks: The name of a task, or several names.
        protocol: The protocol; ``cot_3shot`` adds the worked examples of the paper to each problem.
    """
    prompt_rows = open_rows(WORKED) if protocol == COT else ()
    worked_examples = {
        row["dataset_name"]: row["chain_of_thought_prompt"].strip() for row in prompt_rows
    }
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
    text = readable(sample.response, sample.question)
    announced = next(claimed_texts(text), "")
    text = (announced if _BRACKETS.search(announced) else text).replace("`", "").replace("*", "")
    last_line = next(
        (line for line in reversed(text.splitlines()) if re.search(r"[][(){}<>]", line)), ""
    )
    bracket_runs = _BRACKETS.findall(
        last_line.rpartition(":")[2] if ":" in last_line else last_line
    )
    if bracket_runs:
        answer_brackets: str | None = "".join(max(bracket_runs, key=len).split())
    else:
        answer_brackets = None
    target_brackets = "".join(str(sample.target).split())
    if "input" in sample.metadata:
        input_brackets = "".join(sample.metadata["input"].rpartition("Input:")[2].split())
    else:
        input_brackets = ""
    return found(
        answer_brackets, answer_brackets in (target_brackets, input_brackets + target_brackets)
    )


def word_list(sample: ScorerInput) -> Score:
    """Score whether the response lists the target's words in order, whatever separates them."""
    text = readable(sample.response, sample.question)
    filled_lines = [line for line in text.strip().splitlines() if line.strip()]
    list_text = next(claimed_texts(text), None) or (filled_lines[-1] if filled_lines else None)
    if list_text is None:
        return found(None, False)
    list_parts = re.split(r"[\s,;>→]+", list_text.lower().strip("*`_.\"' "))
    answer_words = [
        list_part
        for list_part in list_parts
        if list_part and not re.fullmatch(r"\d+[.)]", list_part)
    ]
    return found(" ".join(answer_words), answer_words == str(sample.target).lower().split())
