"""The pool of a Ray run without Ray: what becomes of its workers when one of them fails."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("ray")
from nemo_evaluator.executors.ray import RayCluster
from nemo_evaluator.executors.ray_pool import RayPool


async def test_the_other_workers_have_ended_when_one_has_failed() -> None:
    ended: list[int] = []

    class Pool(RayPool):
        async def _join(self, ledger: Any) -> None:
            """The cluster is not needed."""

        async def _serve(self, number: int, task: Any, ledger: Any) -> None:
            if number == 0:
                await asyncio.sleep(0.01)
                raise ValueError("worker 0 failed")
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.05)
                ended.append(number)

    pool = Pool(cast(Any, SimpleNamespace()), RayCluster(shards=3))
    with pytest.raises(ValueError, match="worker 0 failed"):
        await pool._run(cast(Any, None), cast(Any, None))
    assert sorted(ended) == [1, 2]
