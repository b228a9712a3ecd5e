"""``params: {cluster: ...}`` of a task of lm-eval names a column of its documents."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nemo_evaluator.core.errors import UsageError
from nemo_evaluator.core.types import SeedResult

tasks = pytest.importorskip("nemo_evaluator.environments.schemes._lm_eval_tasks")


def test_a_column_of_the_documents_is_the_cluster() -> None:
    environment = object.__new__(tasks.LmEvalEnvironment)
    documents = [{"passage": "the same", "question": str(n)} for n in range(2)]
    environment._document = lambda idx: (None, [SimpleNamespace(doc=documents[idx], doc_id=idx)])
    environment.cluster_by("passage")
    problems = [SeedResult("p", "a", {"doc_id": n}) for n in range(2)]
    for idx, problem in enumerate(problems):
        environment.add_cluster(idx, problem)
    assert [problem.cluster for problem in problems] == ["the same", "the same"]
    environment.cluster_by("pasage")
    with pytest.raises(UsageError, match="no column 'pasage'"):
        environment.add_cluster(0, SeedResult("p", "a", {"doc_id": 0}))
