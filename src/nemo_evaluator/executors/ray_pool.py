"""The head's side of a Ray cluster: it starts workers, feeds them steps, and replaces lost ones."""

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
from typing import Any, Final, cast

import ray
from ray.exceptions import RayActorError, RayError

from nemo_evaluator.core.errors import NelError, UsageError
from nemo_evaluator.core.registry import config_folder
from nemo_evaluator.core.terminal import one_line
from nemo_evaluator.core.types import JsonDict, Step
from nemo_evaluator.engine.halt import HaltKind
from nemo_evaluator.engine.pool import LOOK, Halted, Reply, StepQueue, WorkerPool
from nemo_evaluator.executors.base import Job
from nemo_evaluator.executors.ray import RayCluster
from nemo_evaluator.executors.ray_worker import StepWorker, WorkerTask
from nemo_evaluator.executors.request import needed_variables
from nemo_evaluator.services import RunningService

_log = logging.getLogger(__name__)
# A worker has as many steps in hand again as it works at, so that it never waits for the next.
_IN_HAND: Final = 2
# Workers of one place that are lost one after another while nothing gets done.
_LOSSES: Final = 4
# Records go straight from process to process; the object store only has to exist.
_STORE: Final = 100_000_000
# Seconds: what a worker may take to close, and after how long it is told that one is not ready.
_CLOSING: Final = 10.0
_SLOW: Final = 60.0
_JOIN: Final = "check cluster.address, and run nel on a node of that cluster (`ray start --address=...` joins it)"
_WATCH: Final = Path(__file__).with_name("ray_watch.sh")
_SAME: Final = "every node needs the same nel, with the same extras and files"


class RayPool:
    """The workers of a run; they are started with the first benchmark."""

    def __init__(self, job: Job, settings: RayCluster) -> None:
        self._job = job
        self._settings = settings
        self._actors: dict[int, Any] = {}
        self._own: str | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self.workers = settings.shards

    def of(self, key: str, running: Mapping[str, RunningService]) -> WorkerPool:
        """The pool of one benchmark."""
        folder = config_folder.get()
        # Objects that only this process can use, and secrets, travel apart.
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
        """End the workers, and the cluster if it is ours."""
        await asyncio.gather(*map(self._retire, list(self._actors)))
        if ray.is_initialized():
            await asyncio.to_thread(ray.shutdown)
        if self._watch is not None:
            await asyncio.to_thread(self._watch.communicate)

    async def _run(self, task: WorkerTask, ledger: StepQueue) -> None:
        await self._join(ledger)
        workers = [
            asyncio.ensure_future(self._serve(n, task, ledger))
            for n in range(self._settings.shards)
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            # The first error is already on its way; the other workers must have ended before the pool is closed.
            await asyncio.gather(*workers, return_exceptions=True)

    async def _join(self, ledger: StepQueue) -> None:
        """Start a Ray cluster, or join the one of the config. Raises UsageError when that fails."""
        for is_last_attempt in (False, False, True):
            if ray.is_initialized() or ledger.halt:
                return
            # In a thread: in the main one Ray would take the signals over. A cluster of our own that does not start
            # within Ray's half minute, on a busy machine, is tried again.
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
        host, _, port = (self._settings.address or "").rpartition(":")
        if host and port.isdecimal() and "/" not in host:
            # Ray itself would go on trying for many minutes, deaf to Ctrl-C.
            socket.create_connection((host, int(port)), _CLOSING).close()
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # Ray's own messages go to its own logs.
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self._settings.address is None:
            # Not in the folder for temporary files: the path of a socket may not be long.
            if self._own is None:
                self._own = tempfile.mkdtemp(prefix=f"nel-ray-{os.getpid()}-", dir="/tmp")
                watching = ["/bin/sh", str(_WATCH), self._own]
                self._watch = subprocess.Popen(
                    watching, stdin=subprocess.PIPE, start_new_session=True
                )
            options |= {
                "num_cpus": self._settings.shards,
                "object_store_memory": _STORE,
                "include_dashboard": False,
            }
            options["_temp_dir"] = self._own
        ray.init(address=self._settings.address or "local", **options)

    async def _retire(self, number: int) -> Reply | None:
        """End a worker; returns what it has not handed over, None when it does not say."""
        worker = self._actors.pop(number)
        try:
            return cast(Reply, await asyncio.wait_for(worker.close.remote(), _CLOSING))
        except (TimeoutError, RayError) as error:
            _log.warning(
                "Ray worker %d did not close: %s", number, one_line(str(error), 300) or "no answer"
            )
            return None
        finally:
            ray.kill(worker)

    async def _serve(self, number: int, task: WorkerTask, ledger: StepQueue) -> None:
        """Keep one worker busy until there is nothing left; a lost one is replaced, as long as steps come to an end."""
        losses = 0
        ended = 0
        while not ledger.done and not ledger.halt:
            held: set[Step] = set()
            try:
                await self._feed(number, task, ledger, held=held)
                return
            except RayActorError as error:
                reason = one_line(str(error), 300)
                _log.warning(
                    "Ray worker %d is lost, its %d samples go to another: %s",
                    number,
                    len(held),
                    reason,
                )
                self._actors.pop(number, None)
                ledger.give_back(held)
                losses = losses + 1 if ledger.ended == ended else 1
                ended = ledger.ended
                if losses == _LOSSES:
                    hint = "see the logs of Ray; `nel eval resume` continues where the run stopped"
                    failed = NelError(
                        f"Ray worker {number} was lost {losses} times in a row: {reason}", hint=hint
                    )
                    ledger.halt.set(HaltKind.ERROR, failed.message, error=failed)
            except RayError as error:
                cause = getattr(error, "cause", error)
                if isinstance(cause, NelError):
                    failed = cause
                else:
                    reason = f"{type(cause).__name__}: {one_line(str(cause), 500)}"
                    failed = NelError(f"a Ray worker failed: {reason}", hint=_SAME)
                ledger.halt.set(HaltKind.ERROR, failed.message, error=failed)

    async def _feed(
        self, number: int, task: WorkerTask, ledger: StepQueue, held: set[Step]
    ) -> None:
        if number not in self._actors:
            actor_class = ray.remote(StepWorker).options(
                num_cpus=1, scheduling_strategy="SPREAD", max_restarts=0
            )
            self._actors[number] = actor_class.remote()
        worker = self._actors[number]
        prints = await self._opened(number, worker.open.remote(task, *ledger.counts()), ledger)
        if prints is None:
            return
        if prints != ledger.fingerprints:
            mismatch = UsageError(
                "a node of the Ray cluster has a different nel version or config (fingerprints differ)",
                hint=_SAME,
            )
            ledger.halt.set(HaltKind.ERROR, mismatch.message, error=mismatch)
        charged: list[JsonDict] = []
        while not ledger.over():
            leases = await ledger.lease(_IN_HAND * ledger.max_concurrent - len(held), wait=not held)
            held.update(lease.step for lease in leases)
            if not held:
                return
            halted = Halted.of(ledger.halt)
            news = worker.exchange.remote(
                leases, halted and halted._replace(error=None), ledger.elsewhere(charged)
            )
            ledger.take(held, await news, charged)
        # Requests in flight have had their time.
        last = await self._retire(number)
        if last is not None:
            ledger.take(held, last, charged)

    async def _opened(
        self, number: int, opening: Awaitable[JsonDict], ledger: StepQueue
    ) -> JsonDict | None:
        """The fingerprints of a worker, once it is ready; None when there is nothing left for it to do."""
        future = asyncio.ensure_future(opening)
        began = time.monotonic()
        warned = False
        while not (await asyncio.wait([future], timeout=LOOK))[0]:
            if ledger.halt or ledger.done:
                future.cancel()
                ray.kill(self._actors.pop(number))
                return None
            if not warned and time.monotonic() - began > _SLOW:
                warned = True
                _log.warning(
                    "Ray worker %d is not ready yet: the cluster has no free CPU, or is slow",
                    number,
                )
        return future.result()
