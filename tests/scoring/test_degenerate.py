"""Models that do not answer score nothing, and their rows are shown as unparsed, on the benchmarks of the mirror."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nemo_evaluator.core.types import SeedResult
from nemo_evaluator.environments import get_environment

pytestmark = [pytest.mark.needs("mirror"), pytest.mark.usefixtures("wide_mirror")]
ROWS = 60
HIGHEST = 0.01
SPANS = ("drop", "triviaqa")
SAY_NOTHING = (
    "empty",
    "blank",
    "question",
    "cut off",
    "cut off in the question",
    "refusal",
    "refusal with the question",
)
BENCHMARKS = (
    "mmlu", "mmlu_pro", "arc_challenge", "hellaswag", "winogrande", "truthfulqa_mc", "gsm8k", "mgsm", "math500", "bbh",
    *SPANS,
)  # fmt: skip
_COLUMNS = ("question", "problem", "sentence", "context", "input")


def _asked(seed: SeedResult) -> str:
    return next(str(seed.metadata[name]) for name in _COLUMNS if name in seed.metadata)


def _options(seed: SeedResult) -> list[str]:
    listed = seed.metadata.get("choices") or seed.metadata.get("options") or []
    return list(listed.values()) if isinstance(listed, dict) else list(listed)


def _lines(seed: SeedResult) -> str:
    return "\n".join(f"{letter}) {text}" for letter, text in zip("ABCDEFGHIJ", _options(seed), strict=False))


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
    "refusal with the question": lambda seed: f"I cannot determine the answer to the question: {_asked(seed)}",
    "every letter": lambda seed: "A, B, C, D, E, F, G, H, I, J",
    "all letters after the cue": lambda seed: "Answer: A, B, C, D",
    "a or b": lambda seed: "The answer is A or B.",
    "the format": lambda seed: "Answer: $LETTER",
    "yes and no": lambda seed: "Yes and no.",
    "punctuation": lambda seed: "...",
    "promise": lambda seed: "Let me think step by step about this problem.",
}


@pytest.mark.parametrize("name", BENCHMARKS)
async def test_degenerate_models(name: str) -> None:
    environment = get_environment(name)
    step = max(1, len(environment) // ROWS)
    seeds = [await environment.seed(idx) for idx in range(0, len(environment), step)]
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
        words = (name == "math500" and model == "yes and no") or (name in SPANS and model not in SAY_NOTHING)
        assert words or unparsed >= 0.85 * len(seeds), (model, unparsed / len(seeds))
