"""The head's side of a Ray cluster: workers, and what is done when one of them is lost."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import ray
from ray.exceptions import RayActorError, RayTaskError

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.types import Step
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.pool import Halted, Ledger, Pool
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.ray_worker import RunningAt, StepWorker, WorkerTask
from nemo_evaluator.executors.request import needed_variables
from nemo_evaluator.services import RunningService

if TYPE_CHECKING:
    from nemo_evaluator.executors.ray import RayCluster

_log = logging.getLogger(__name__)
# A worker has as many steps in hand again as it works at, so that it never waits for the next.
_IN_HAND: Final = 2
_LOSSES: Final = 3
# Records go straight from process to process; the object store only has to exist.
_STORE: Final = 100_000_000
_JOIN: Final = "check cluster.address; a cluster is started with `ray start --head`"


class RayPool:
    """The workers of a run; they are started with the first benchmark."""

    def __init__(self, job: Job, settings: RayCluster) -> None:
        self._job, self._settings = job, settings
        self._actors: dict[int, Any] = {}

    def of(self, key: str, running: Mapping[str, RunningService]) -> Pool:
        """The pool of one benchmark."""
        folder = config_folder.get()
        task = WorkerTask(
            raw=self._job.loaded.raw,
            variables=needed_variables(self._job.loaded) | self._settings.container_env,
            benchmark=key,
            running={name: RunningAt.of(one) for name, one in running.items()},
            run_id=self._job.run.run_id,
            output_dir=self._job.run.output_dir,
            cwd=str(Path.cwd()),
            folder=str(folder.resolve()) if folder is not None else None,
        )
        return partial(self._run, task)

    async def close(self) -> None:
        """End the workers, and the cluster if it is ours."""
        self._actors.clear()
        if ray.is_initialized():
            await asyncio.to_thread(ray.shutdown)

    async def _run(self, task: WorkerTask, ledger: Ledger) -> None:
        await self._join()
        workers = [asyncio.ensure_future(self._serve(n, task, ledger)) for n in range(self._settings.shards)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _join(self) -> None:
        for last in (False, False, True):
            if ray.is_initialized():
                return
            # In a thread: in the main one Ray would take the signals over. A cluster of our own that does not start
            # within Ray's half minute, on a busy machine, is tried again.
            (error,) = await asyncio.gather(asyncio.to_thread(self._init), return_exceptions=True)
            if error is not None:
                await asyncio.to_thread(ray.shutdown)
                if last or self._settings.address is not None:
                    raise UsageError(f"the Ray cluster could not be joined: {error}", hint=_JOIN) from error

    def _init(self) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # What Ray says of itself goes to its own logs.
        words: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._settings.address is None:
            words |= {"num_cpus": self._settings.shards, "object_store_memory": _STORE, "include_dashboard": False}
        ray.init(address=self._settings.address or "local", **words)

    def _worker(self, number: int) -> Any:
        if number not in self._actors:
            made = ray.remote(StepWorker).options(num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0)
            self._actors[number] = made.remote()
        return self._actors[number]

    async def _serve(self, number: int, task: WorkerTask, ledger: Ledger) -> None:
        """Keep one worker busy until there is nothing left; a lost one is replaced."""
        for _ in range(_LOSSES + 1):
            held: set[Step] = set()
            try:
                await self._feed(number, task, ledger, held)
                return
            except RayActorError as error:
                _log.warning("Ray worker %d is lost (%s); its %d samples go to another", number, error, len(held))
                lost = error
                del self._actors[number]
                ledger.give_back(held)
            except RayTaskError as error:
                cause = error.cause if isinstance(error.cause, NelError) else NelError(f"a Ray worker failed: {error}")
                ledger.halt.set(HaltKind.ERROR, cause.message, error=cause)
                return
        hint = "see the logs of Ray; `nel eval resume` continues where the run stopped"
        failed = NelError(f"Ray worker {number} was lost {_LOSSES + 1} times: {lost}", hint=hint)
        ledger.halt.set(HaltKind.ERROR, failed.message, error=failed)

    async def _feed(self, number: int, task: WorkerTask, ledger: Ledger, held: set[Step]) -> None:
        worker = self._worker(number)
        if await worker.open.remote(task) != ledger.fingerprints:
            hint = "install the same nel on every node, and give them the same files"
            raised = UsageError("a node of the Ray cluster would ask or score otherwise than this machine", hint=hint)
            ledger.halt.set(HaltKind.ERROR, raised.message, error=raised)
            return
        charged: list[dict[str, Any]] = []
        while not ledger.over():
            leases = await ledger.lease(_IN_HAND * ledger.max_concurrent - len(held), wait=not held)
            held.update(lease.step for lease in leases)
            if not held:
                return
            halted = Halted.of(ledger.halt)
            ledger.take(held, await worker.exchange.remote(leases, halted and halted._replace(error=None)), charged)
        # Requests in flight have had their time; so has their worker.
        ray.kill(self._actors.pop(number))
