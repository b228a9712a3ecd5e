"""The driver of a Ray cluster: starts workers, sends them steps, and replaces lost ones."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import ray
from ray.exceptions import RayActorError, RayError

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.pool import LOOK, Halted, Reply, StepQueue, WorkerPool
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.ray import RayCluster
from nemo_evaluator.executors.ray_worker import StepWorker, WorkerTask
from nemo_evaluator.executors.request import needed_variables
from nemo_evaluator.services import RunningService

if TYPE_CHECKING:
    from nemo_evaluator.models.budget_charges import Charges

_log = logging.getLogger(__name__)
# Leased steps per running step of a worker, so that it never waits for the next one.
_IN_HAND: Final = 2
# How often a worker may be lost in a row without a step finishing in between.
_LOSSES: Final = 4
# Bytes; records do not pass through the object store, which only has to exist.
_STORE: Final = 100_000_000
# Seconds: how long a worker may take to close, and when to warn that one is not ready.
_CLOSING: Final = 10.0
_SLOW: Final = 60.0
_JOIN: Final = "check cluster.address, and run nel on a node of that cluster (`ray start --address=...` joins it)"
_WATCH: Final = Path(__file__).with_name("ray_watch.sh")
_SAME: Final = "every node needs the same nel, with the same extras and files"


class RayPool:
    """The workers of a run, started with the first benchmark."""

    def __init__(self, job: Job, settings: RayCluster) -> None:
        self._job = job
        self._settings = settings
        self._actors: dict[int, Any] = {}
        self._own: str | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self.workers = settings.shards

    def of(self, key: str, running: Mapping[str, RunningService]) -> WorkerPool:
        """Return the worker pool of one benchmark.

        Args:
            key: The benchmark.
            running: The running services, by name.
        """
        folder = config_folder.get()
        # API keys are sent separately, and objects that only this process can use are not sent.
        services: dict[str, RunningService] = {}
        keys: dict[str, str] = {}
        for name, service in running.items():
            services[name] = replace(service, api_key=None, lost=None)
            if service.api_key is not None:
                keys[name] = service.api_key.reveal()
        task = WorkerTask(
            raw=self._job.loaded.raw,
            variables=needed_variables(self._job.loaded) | self._settings.container_env,
            benchmark=key,
            running=services,
            keys=keys,
            run_id=self._job.run.run_id,
            output_dir=self._job.run.output_dir,
            cwd=str(Path.cwd()),
            folder=str(folder.resolve()) if folder is not None else None,
        )
        return partial(self._run, task)

    async def close(self) -> None:
        """End the workers, and the cluster if this process started it."""
        await asyncio.gather(*map(self._retire, list(self._actors)))
        if ray.is_initialized():
            await asyncio.to_thread(ray.shutdown)
        if self._watch is not None:
            await asyncio.to_thread(self._watch.communicate)

    async def _run(self, task: WorkerTask, queue: StepQueue) -> None:
        """Run the steps of a benchmark on all workers."""
        await self._join(queue)
        workers = []
        for number in range(self._settings.shards):
            workers.append(asyncio.ensure_future(self._serve(number, task, queue)))
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            # The first error is being raised; the other workers must have ended before the pool is closed.
            await asyncio.gather(*workers, return_exceptions=True)

    async def _join(self, queue: StepQueue) -> None:
        """Join the configured Ray cluster, or start one.

        Raises:
            UsageError: If that fails.
        """
        for is_last_attempt in (False, False, True):
            if ray.is_initialized() or queue.halt:
                return
            # In a thread, because Ray replaces the signal handlers of the main thread. Starting a local cluster
            # is retried, since it may exceed Ray's limit of half a minute on a busy machine.
            (error,) = await asyncio.gather(asyncio.to_thread(self._init), return_exceptions=True)
            # Ray's own handler in C prints a stack and ends the process three seconds after a SIGTERM.
            signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGTERM))
            if error is not None:
                await asyncio.to_thread(ray.shutdown)
                if is_last_attempt or self._settings.address is not None:
                    raise UsageError(
                        f"the Ray cluster could not be joined: {error}", hint=_JOIN
                    ) from error

    def _init(self) -> None:
        """Connect to Ray; without an address, start a cluster in a temporary folder that a watchdog process removes."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray's own messages go to its own logs.
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        address = self._settings.address
        if address is None:
            ray.init(
                address="local",
                num_cpus=self._settings.shards,
                object_store_memory=_STORE,
                include_dashboard=False,
                _temp_dir=self._own_folder(),
                **options,
            )
            return
        host, _, port = address.rpartition(":")
        if host and port.isdecimal() and "/" not in host:
            # Checked first: Ray itself would retry for many minutes and ignore Ctrl-C.
            socket.create_connection((host, int(port)), _CLOSING).close()
        ray.init(address=address or "local", **options)

    def _own_folder(self) -> str:
        """Return the folder of the cluster that this process starts, and start the process that removes it."""
        if self._own is None:
            # Not in $TMPDIR: the paths of sockets are limited in length.
            self._own = tempfile.mkdtemp(prefix=f"nel-ray-{os.getpid()}-", dir="/tmp")
            watch_command = ["/bin/sh", str(_WATCH), self._own]
            self._watch = subprocess.Popen(
                watch_command, stdin=subprocess.PIPE, start_new_session=True
            )
        return self._own

    async def _retire(self, number: int) -> Reply | None:
        """End a worker.

        Returns:
            The records it had not yet delivered; None if it did not answer.
        """
        worker = self._actors.pop(number)
        try:
            return cast(Reply, await asyncio.wait_for(worker.close.remote(), _CLOSING))
        except (TimeoutError, RayError) as error:
            reason = one_line(str(error), 300) or "no answer"
            _log.warning("Ray worker %d did not close: %s", number, reason)
            return None
        finally:
            ray.kill(worker)

    async def _serve(self, number: int, task: WorkerTask, queue: StepQueue) -> None:
        """Keep one worker busy until no steps are left; replace it if it is lost, as long as steps keep finishing."""
        losses = 0
        steps_ended = 0
        while not queue.done and not queue.halt:
            leased_steps: set[Step] = set()
            try:
                await self._feed(number, task, queue, held=leased_steps)
                return
            except RayActorError as error:
                reason = one_line(str(error), 300)
                _log.warning(
                    "Ray worker %d is lost, its %d samples go to another: %s",
                    number,
                    len(leased_steps),
                    reason,
                )
                self._actors.pop(number, None)
                queue.give_back(leased_steps)
                if queue.ended != steps_ended:
                    losses = 0
                losses += 1
                steps_ended = queue.ended
                if losses == _LOSSES:
                    problem = f"Ray worker {number} was lost {losses} times in a row: {reason}"
                    hint = "see the logs of Ray; `nel eval resume` continues where the run stopped"
                    queue.halt.set_error(NelError(problem, hint=hint))
            except RayError as error:
                queue.halt.set_error(_worker_error(error))

    async def _feed(self, number: int, task: WorkerTask, queue: StepQueue, held: set[Step]) -> None:
        """Start a worker and exchange steps for records with it until nothing is left to do."""
        if number not in self._actors:
            actor_class = ray.remote(StepWorker).options(
                num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0
            )
            self._actors[number] = actor_class.remote()
        worker = self._actors[number]
        scored, reused = queue.counts()
        opening = worker.open.remote(task, scored, reused)
        fingerprints = await self._opened(number, opening, queue)
        if fingerprints is None:
            return
        if fingerprints != queue.fingerprints:
            problem = "a node of the Ray cluster has a different nel version or config (fingerprints differ)"
            queue.halt.set_error(UsageError(problem, hint=_SAME))
        charged: list[Charges] = []
        while not queue.over():
            most_new_steps = _IN_HAND * queue.max_concurrent - len(held)
            leases = await queue.lease(most_new_steps, wait=not held)
            held.update(lease.step for lease in leases)
            if not held:
                # No step is left.
                return
            halted = Halted.of(queue.halt)
            if halted is not None:
                # The exception itself stays in this process.
                halted = halted._replace(error=None)
            charged_elsewhere = queue.elsewhere(charged)
            reply = await worker.exchange.remote(leases, halted, charged_elsewhere)
            queue.take(held, reply, charged)
        # The time for requests in flight is over.
        last_reply = await self._retire(number)
        if last_reply is not None:
            queue.take(held, last_reply, charged)

    async def _opened(
        self, number: int, opening: Awaitable[JsonDict], queue: StepQueue
    ) -> JsonDict | None:
        """Wait until a worker is ready.

        Returns:
            Its fingerprints; None if there is nothing left for it to do.
        """
        future = asyncio.ensure_future(opening)
        started_at = time.monotonic()
        warned = False
        while True:
            finished, _ = await asyncio.wait([future], timeout=LOOK)
            if finished:
                return future.result()
            if queue.halt or queue.done:
                future.cancel()
                ray.kill(self._actors.pop(number))
                return None
            if not warned and time.monotonic() - started_at > _SLOW:
                warned = True
                _log.warning(
                    "Ray worker %d is not ready yet: the cluster has no free CPU, or is slow",
                    number,
                )


def _worker_error(error: RayError) -> NelError:
    """Return what a worker raised, as an error for the user."""
    cause = getattr(error, "cause", error)
    if isinstance(cause, NelError):
        return cause
    reason = f"{type(cause).__name__}: {one_line(str(cause), 500)}"
    return NelError(f"a Ray worker failed: {reason}", hint=_SAME)
