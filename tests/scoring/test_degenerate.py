"""Models that do not answer score nothing, and their rows are shown as unparsed, on the benchmarks of the mirror and on
rows of our own for those that no mirror holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.benchmarks import _rows, builtin_names
from nemo_evaluator.benchmarks._self_test import self_test
from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.datasets import ListRows
from nemo_evaluator.environments import EvalEnvironment, get_environment

ROWS = 60
HIGHEST = 0.01
SPANS = ("drop", "triviaqa", "squad_v2")
SAY_NOTHING = (
    "empty",
    "blank",
    "question",
    "cut off",
    "cut off in the question",
    "refusal",
    "refusal with the question",
)
BENCHMARKS = [name for name in sorted(builtin_names()) if self_test(name).answers]
_COLUMNS = ("question", "problem", "sentence", "context", "input")


def _asked(seed: SeedResult) -> str:
    asked = next((seed.metadata[name] for name in _COLUMNS if name in seed.metadata), seed.prompt)
    return str(asked)


def _options(seed: SeedResult) -> list[str]:
    listed = seed.metadata.get("choices") or seed.metadata.get("options") or []
    return list(listed.values()) if isinstance(listed, dict) else list(listed)


def _lines(seed: SeedResult) -> str:
    return "\n".join(
        f"{letter}) {text}" for letter, text in zip("ABCDEFGHIJ", _options(seed), strict=False)
    )


MODELS: dict[str, Callable[[SeedResult], str]] = {
    "empty": lambda seed: "",
    "blank": lambda seed: " \n\t",
    "question": _asked,
    "prompt": lambda seed: seed.prompt if isinstance(seed.prompt, str) else _asked(seed),
    "options": lambda seed: _lines(seed) or _asked(seed),
    "question and options": lambda seed: f"{_asked(seed)}\n\n{_lines(seed)}",
    "cut off": lambda seed: f"A) {(_options(seed) or [''])[0]}: this would require that the",
    "cut off in the question": lambda seed: (
        f"To solve this, we note that {_asked(seed)[: len(_asked(seed)) // 2]} and the"
    ),
    "refusal": lambda seed: "I'm sorry, but I cannot answer this question.",
    "refusal with the question": lambda seed: (
        f"I cannot determine the answer to the question: {_asked(seed)}"
    ),
    "every letter": lambda seed: "A, B, C, D, E, F, G, H, I, J",
    "all letters after the cue": lambda seed: "Answer: A, B, C, D",
    "a or b": lambda seed: "The answer is A or B.",
    "the format": lambda seed: "Answer: $LETTER",
    "yes and no": lambda seed: "Yes and no.",
    "punctuation": lambda seed: "...",
    "promise": lambda seed: "Let me think step by step about this problem.",
}


@pytest.mark.needs("mirror")
@pytest.mark.usefixtures("wide_mirror")
@pytest.mark.parametrize("name", BENCHMARKS)
async def test_degenerate_models(name: str) -> None:
    environment = get_environment(name)
    await _score_nothing(environment, name, max(1, len(environment) // ROWS))


_PASSAGE = "The bridge over the Tay was opened in 1887 and has 86 piers. William Arrol's company built it of steel."
_CHOICES = {
    "label": ["A", "B", "C", "D"],
    "text": ["a pump", "a magnet", "copper wire", "the moon"],
}
_ARC = {"id": "1", "question": "Which of these attracts iron?", "choices": _CHOICES}
_MMLU = {
    "question": "Which of these attracts iron?",
    "choices": _CHOICES["text"],
    "answer": 1,
    "error_type": "ok",
}
# Rows in the form of the hub, for the built-ins that the mirror does not hold.
OWN_ROWS: dict[str, list[dict[str, Any]]] = {
    "squad_v2": [
        {"id": "1", "context": _PASSAGE, "question": "When was the bridge opened?", "answers": {"text": ["1887"]}},
        {"id": "2", "context": _PASSAGE, "question": "Whose company built it?", "answers": {"text": ["William Arrol"]}},
        {"id": "3", "context": _PASSAGE, "question": "How many piers has it?", "answers": {"text": ["86", "86 piers"]}},
    ],
    "boolq": [
        {"passage": _PASSAGE, "question": "is the bridge over the tay made of steel", "answer": True},
        {"passage": _PASSAGE, "question": "does the bridge have a hundred piers", "answer": False},
    ],
    "gpqa": [
        {
            "Question": "Which particle carries the strong force?",
            "Correct Answer": "the gluon",
            **{f"Incorrect Answer {n}": wrong for n, wrong in enumerate(("the photon", "the pion", "the muon"), 1)},
            "High-level domain": "Physics",
        }
    ],
    "aime_2024": [{"id": 1, "problem": "Find the number of primes below 30, plus 17.", "answer": "027"}],
    "aime_2025": [{"id": 1, "problem": "How many squares below 900 are even?", "answer": "15"}],
    "arc_easy": [_ARC | {"answerKey": answer} for answer in "AB"],
    "commonsense_qa": [_ARC | {"answerKey": answer} for answer in "AB"],
    "global_mmlu": [
        {
            "sample_id": "1",
            "subject": "physics",
            "question": "Was zieht Eisen an?",
            **{f"option_{label}": text for label, text in zip("abcd", _CHOICES["text"], strict=True)},
            "answer": answer,
        }
        for answer in "AB"
    ],
    "mmlu_redux": [_MMLU, _MMLU | {"answer": 0}],
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_ROWS)
async def test_degenerate_models_on_rows_of_our_own(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, params = (
        OWN_ROWS[name],
        {"global_mmlu": {"languages": "de"}, "mmlu_redux": {"subjects": ["physics"]}},
    )
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(_rows, "open_rows", lambda uri: ListRows(rows))
    environment = get_environment(name, params=params.get(name, {"dataset": str(file)}))
    assert len(environment) == len(rows)
    right = [
        await environment.verify_answer(f"Answer: {seed.expected_answer}", seed)
        for seed in await _seeds(environment)
    ]
    assert [verdict.reward for verdict in right] == [1.0] * len(rows)
    await _score_nothing(environment, name)


async def _seeds(environment: EvalEnvironment, step: int = 1) -> list[SeedResult]:
    return [await environment.seed(idx) for idx in range(0, len(environment), step)]


async def _score_nothing(environment: EvalEnvironment, name: str, step: int = 1) -> None:
    seeds = await _seeds(environment, step)
    for model, answer in MODELS.items():
        right, unparsed, shown = 0.0, 0, []
        for seed in seeds:
            text = answer(seed)
            verdict = await environment.verify_answer(text, seed)
            right += verdict.reward
            unparsed += bool(verdict.scoring_details.get("unparsed"))
            if verdict.reward:
                shown.append((text[-200:], seed.expected_answer, verdict.extracted_answer))
        assert right <= HIGHEST * len(seeds), (model, right / len(seeds), shown[:3])
        # A few words may be an answer to a problem of mathematics or a question of facts, a wrong one.
        words = (name == "math500" and model == "yes and no") or (
            name in SPANS and model not in SAY_NOTHING
        )
        assert words or unparsed >= 0.85 * len(seeds), (model, unparsed / len(seeds))
