"""Every built-in benchmark declares its clusters, or why it has none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from nemo_evaluator.benchmarks._rows import shared_passage
from nemo_evaluator.benchmarks._self_test import self_test
from nemo_evaluator.environments import get_environment
from nemo_evaluator.environments.clusters import Independent
from nemo_evaluator.environments.registry import builtin_names, environment_class


@pytest.mark.parametrize("name", sorted(builtin_names()))
def test_it_declares_its_clusters(name: str) -> None:
    declared = environment_class(name).definition.cluster  # type: ignore[attr-defined]
    assert declared is not None, f"{name}: @benchmark(cluster=...) is missing"
    if isinstance(declared, Independent):
        assert len(declared.reason) > 20


@pytest.mark.parametrize(
    ("name", "clusters", "largest"),
    [("mgsm", 250, 11), ("drop", 409, 15), ("winogrande", 986, 3), ("hellaswag", 704, 6)],
)
async def test_the_rows_of_the_mirror_share_clusters(
    name: str, clusters: int, largest: int, data_mirror: Path
) -> None:
    environment = get_environment(name, params=dict(self_test(name).params), num_fewshot=0)
    sizes: Counter[str] = Counter()
    for idx in range(len(environment)):
        problem = await environment.seed(idx)
        sizes[problem.cluster or f"own {idx}"] += 1
    assert len(sizes) == clusters
    assert max(sizes.values()) == largest


def test_questions_of_mmlu_on_one_passage() -> None:
    passage = "This question refers to the following information.\nIn 1848, " + "a b c " * 60
    first = shared_passage({"question": f"{passage}\nWho wrote it?"})
    second = shared_passage({"question": f"{passage}\nWhen was it written?"})
    assert first is not None
    assert first == second
    assert shared_passage({"question": "Which of the following is a prime?"}) is None
