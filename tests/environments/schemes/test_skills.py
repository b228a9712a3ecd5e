"""``skills://``: NeMo Skills' files, without the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_evaluator.core.errors import SeedError, UsageError
from nemo_evaluator.environments.registry import get_environment


def lay(
    folder: Path, name: str, rows: list[dict[str, Any]], declared: str = "", split: str = "test"
) -> None:
    place = folder / name
    place.mkdir(parents=True)
    (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if declared:
        (place / "__init__.py").write_text(declared)


async def reward(uri: str, response: str, **params: Any) -> float:
    environment = get_environment(uri, params=params)
    return (await environment.verify_answer(response, await environment.seed(0))).reward


async def test_math_is_compared_as_mathematics(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "gsm8k",
        [{"problem": "How much is 1/2 + 1/4?", "expected_answer": "\\frac{3}{4}", "level": 2}],
    )
    environment = get_environment("skills://gsm8k", params={"data_dir": str(tmp_path)})
    seed = await environment.seed(0)
    assert (
        seed.prompt.endswith("inside \\boxed{}.\n\nHow much is 1/2 + 1/4?")
        and seed.metadata["level"] == 2
    )
    assert await environment.dataset_size() == 1 and environment.name == "skills_gsm8k"
    assert (await environment.verify_answer("So \\boxed{0.75}", seed)).reward == 1.0
    assert (await environment.verify_answer("So \\boxed{0.5}", seed)).reward == 0.0


async def test_choices_by_the_letters_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = "Which?\n\nA. one\nB. two\nC. three"
    lay(tmp_path, "mmlu-pro", [{"problem": problem, "expected_answer": "B", "category": "law"}])
    monkeypatch.setenv("NEMO_SKILLS_DATA_DIR", str(tmp_path))
    assert await reward("skills://mmlu-pro", "I say\nAnswer: B") == 1.0
    assert await reward("skills://mmlu-pro", "Answer: C") == 0.0


async def test_what_a_benchmark_declares_is_read_and_not_run(tmp_path: Path) -> None:
    declared = 'METRICS_TYPE = "multichoice"\nEVAL_SPLIT = "diamond"\nraise SystemExit("run!")\n'
    lay(tmp_path, "own/set", [{"question": "Q\nA) x\nB) y", "answer": "A"}], declared, "diamond")
    assert await reward("skills://own.set", "Answer: A", data_dir=str(tmp_path)) == 1.0


async def test_the_prompt_is_ours_to_give(tmp_path: Path) -> None:
    lay(tmp_path, "x", [{"question": "Capital of {France}?", "answer": "Paris"}])
    params = {"data_dir": str(tmp_path), "eval_type": "exact_match", "prompt": "{} {problem}"}
    environment = get_environment("skills://x", params=params)
    assert (await environment.seed(0)).prompt == "{} Capital of {France}?"
    assert await reward("skills://x", "Paris", **params) == 1.0


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="skills://gpqa was not found") as caught:
        get_environment("skills://gpqa", params={"data_dir": str(tmp_path)})
    assert "ns prepare_data gpqa" in (caught.value.hint or "")
    lay(
        tmp_path,
        "livecodebench",
        [{"question": "q", "answer": "a"}],
        'METRICS_TYPE = "livecodebench"',
    )
    with pytest.raises(
        UsageError, match="evaluation type 'livecodebench', which nel does not score"
    ):
        get_environment("skills://livecodebench", params={"data_dir": str(tmp_path)})
    lay(tmp_path, "odd", [{"question": "q", "answer": "a"}])
    with pytest.raises(UsageError, match="skills://odd declares no evaluation type"):
        get_environment("skills://odd", params={"data_dir": str(tmp_path)})
    lay(tmp_path, "aime25", [{"problem": "q"}], split="train")
    with pytest.raises(UsageError, match=r"test\.jsonl does not exist") as caught:
        get_environment("skills://aime25", params={"data_dir": str(tmp_path)})
    assert "train" in (caught.value.hint or "")


async def test_a_row_without_an_answer_cannot_be_asked(tmp_path: Path) -> None:
    lay(tmp_path, "gsm8k", [{"problem": "q"}])
    with pytest.raises(SeedError, match="row 0 has no answer"):
        await get_environment("skills://gsm8k", params={"data_dir": str(tmp_path)}).seed(0)
