"""The desk: collects requests into batches, and gives each caller its result.

``life.py`` takes each batch through its states; a batch of an earlier session, which may have been killed, continues
where its ledger ends.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import uuid
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from time import monotonic
from typing import Any, Final

from nemo_evaluator.core.errors import DetachedError, InterruptedRunError, NotFoundError
from nemo_evaluator.core.slots import Slots, current_slots
from nemo_evaluator.models.batch.ledger import BatchLedger, State, Wave
from nemo_evaluator.models.batch.life import BatchLife
from nemo_evaluator.models.batch.patience import LONGEST_PAUSE, SHORTEST_PAUSE, Patience
from nemo_evaluator.models.batch.pending import PendingRequests
from nemo_evaluator.models.batch.vendor import Result, Standing, Vendor
from nemo_evaluator.models.endpoint import BatchSettings

log = logging.getLogger(__name__)
# A batch is closed after so many seconds without a new request, if every step waits; at the latest after _LINGER.
_QUIET: Final = 0.1
_LINGER: Final = 600.0
# So many results are handed out before other tasks run.
_TURN: Final = 100
TOO_MANY_TOKENS: Final = "token_limit_exceeded"
#: The result of a request whose batch the vendor never got: the caller requests it again, under the same id.
ABSENT: Final = Result(why="absent")
#: The result of a request whose batch the vendor refused for its tokens: the caller requests it again, under another
#: id.
THROTTLED: Final = Result(why="throttled")


class Desk:
    """Returns the result of each request, through batches that are noted in a ledger.

    Attributes:
        spent: Ids whose result of an earlier session was not an answer.
        lost: Those of them whose answer was paid for and could not be read.
    """

    def __init__(self, vendor: Vendor, settings: BatchSettings, path: str) -> None:
        """Open the ledger and continue the batches of earlier sessions.

        Args:
            vendor: The vendor.
            settings: The settings, with the folder of the ledger.
            path: The path of the requests.
        """
        assert settings.folder is not None
        self._vendor = vendor
        self._detaches = settings.detach
        self._path = path
        self._ledger = BatchLedger(settings.folder)
        self._patience = Patience(vendor.endpoint.timeouts.outage)
        self._life = BatchLife(vendor, self._ledger, self._patience, max_wait=settings.max_wait)
        most_requests = min(settings.max_requests, vendor.most)
        self._pending = PendingRequests(most_requests, vendor.largest)
        # By id of the request: the batch that has it, or may have it, and the future of its result.
        self._batch_of: dict[str, Wave] = {}
        self._waiting: dict[str, asyncio.Future[Result]] = {}
        self.spent: set[str] = set()
        self.lost: set[str] = set()
        # By nonce of the batch: the task that follows it.
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last_request_at = 0.0
        self._slots: Slots | None = None
        self._detached = False
        for wave in self._ledger.waves.values():
            self._take_up(wave)

    async def result(
        self, custom_id: str, line: bytes, interrupted: Callable[[], bool] | None
    ) -> Result:
        """Return the result of one request, from the batch that has it, or from the next one.

        Args:
            custom_id: The id of the request.
            line: The request in the form of the vendor.
            interrupted: Returns whether the run was interrupted.

        Raises:
            BoundaryError: The request's batch failed.
            InterruptedRunError: The run was interrupted before the request was in a batch.
            DetachedError: The run does not wait for its batches.
        """
        self._slots = current_slots.get()
        if interrupted is not None:
            self._patience.interrupted = interrupted
        wave = self._batch_of.get(custom_id)
        if wave is not None and wave.error is not None:
            raise copy.copy(wave.error)
        if wave is not None and wave.state is State.COLLECTED:
            self._batch_of.pop(custom_id)
            return self._life.result(wave, custom_id)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[custom_id] = future
        if wave is None:
            self._pending.add(custom_id, line)
        self._last_request_at = monotonic()
        if self._pending.full:
            self._launch()
        self._start_timer()
        try:
            return await future
        finally:
            self._waiting.pop(custom_id, None)

    async def close(self) -> None:
        """Cancel running batches, unless they were left on purpose or cannot be reached, and close the ledger.

        The next session collects what they have finished.
        """
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for wave in self._ledger.waves.values():
            runs_at_vendor = wave.batch and wave.state.open and not wave.asked_at
            if runs_at_vendor and wave.error is None and not self._detached:
                await self._life.cancel(wave)
        self._ledger.close()

    def _take_up(self, wave: Wave) -> None:
        """Continue a batch of an earlier session: keep its results, or follow it to its end."""
        if wave.state is State.COLLECTED:
            for custom_id in wave.ids:
                self._take_up_result(wave, custom_id)
        elif wave.state.open:
            self._batch_of.update(dict.fromkeys(wave.ids, wave))
            self._start(wave, self._follow(wave))

    def _take_up_result(self, wave: Wave, custom_id: str) -> None:
        """Remember whether a batch of an earlier session has an answer to a request."""
        result = self._life.reported_result(wave, custom_id)
        if result.ok:
            self._batch_of[custom_id] = wave
            return
        self.spent.add(custom_id)
        if result.lost:
            self.lost.add(custom_id)

    def _start_timer(self) -> None:
        """Call ``_tick`` soon, unless that is planned already."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._tick)

    def _tick(self) -> None:
        """Submit the pending requests, or leave the running batches, once no new request has come for a while."""
        self._timer = None
        now = monotonic()
        if self._patience.interrupted():
            self._refuse_pending()
        elif now - self._last_request_at >= _QUIET:
            every_step_waits = self._slots is None or self._slots.idle
            overdue = now - self._pending.first_at > _LINGER
            if self._pending and (every_step_waits or overdue):
                self._launch()
            elif every_step_waits and self._can_leave():
                self._leave()
        if self._pending or (self._detaches and self._waiting):
            self._start_timer()

    def _refuse_pending(self) -> None:
        """Fail the requests that are in no batch, because the run was interrupted."""
        error = InterruptedRunError(
            "the run was interrupted before this request was submitted", attempts=0
        )
        self._fail(self._pending.ids, error)
        self._pending.clear()

    def _can_leave(self) -> bool:
        """Whether the run detaches from its batches, and all of them have been seen at the vendor."""
        if not self._detaches or not self._waiting:
            return False
        return all(self._ledger.waves[nonce].looked for nonce in self._tasks)

    def _leave(self) -> None:
        """Stop waiting for the running batches."""
        self._detached = True
        names = ", ".join(self._ledger.waves[nonce].batch for nonce in self._tasks)
        text = f"submitted and left to the vendor: {names}"
        hint = "run the same command with --resume to collect the results; `nel eval status` shows what is open"
        self._fail(list(self._waiting), DetachedError(text, hint=hint))

    def _launch(self) -> None:
        """Submit the pending requests whose caller still waits, in as many batches as they need."""
        while self._pending:
            lines = self._pending.take(self._waiting)
            if lines:
                wave = Wave(uuid.uuid4().hex, list(lines))
                self._batch_of.update(dict.fromkeys(wave.ids, wave))
                self._start(wave, self._submit_and_follow(wave, lines))

    def _start(self, wave: Wave, work: Coroutine[Any, Any, None]) -> None:
        """Start the task that follows a batch."""
        task = asyncio.create_task(work)
        self._tasks[wave.nonce] = task
        task.add_done_callback(partial(self._task_ended, wave))

    def _task_ended(self, wave: Wave, task: asyncio.Task[None]) -> None:
        """Pass the error of a batch's task to the callers."""
        self._tasks.pop(wave.nonce, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            wave.error = error
            self._fail(wave.ids, error)

    async def _submit_and_follow(self, wave: Wave, lines: dict[str, bytes]) -> None:
        """Submit a batch and follow it to its end."""
        await self._life.submit(wave, self._path, list(lines.values()))
        # A batch may run for a day: its requests need no memory meanwhile.
        lines.clear()
        await self._follow(wave)

    async def _follow(self, wave: Wave) -> None:
        """Follow a batch that the vendor has, or may have, to its end, and hand out its results."""
        if wave.state is State.SUBMITTING and not await self._life.found(wave):
            self._forget(wave)
            return
        try:
            standing = await self._life.ended(wave)
            await self._life.collect(wave, standing)
        except NotFoundError:
            if not wave.changed:
                raise
            log.warning(
                "%s no longer has batch %s: nel sends its requests again",
                self._vendor.endpoint.name,
                wave.batch,
            )
            self._forget(wave)
            return
        if standing.code == TOO_MANY_TOKENS and len(wave.ids) > 1:
            await self._throttle(wave)
        else:
            await self._hand_out(wave, standing)

    def _forget(self, wave: Wave) -> None:
        """Put the requests of a batch that the vendor does not have into the next batch."""
        self._ledger.note(wave, State.ABSENT)
        self._give_all(wave.ids, ABSENT)

    async def _throttle(self, wave: Wave) -> None:
        """Halve the next batches and submit the requests again later: the vendor allows fewer tokens at once."""
        self._pending.most = max(1, len(wave.ids) // 2)
        others_running = len(self._tasks) > 1
        await self._patience.pause(LONGEST_PAUSE if others_running else SHORTEST_PAUSE)
        await asyncio.sleep(_QUIET)
        self._give_all(wave.ids, THROTTLED)

    async def _hand_out(self, wave: Wave, standing: Standing) -> None:
        """Give the waiting callers their results: answers first, so that they count before failures do."""
        failures: dict[str, Result] = {}
        waiting_ids = [custom_id for custom_id in wave.ids if custom_id in self._waiting]
        for number, custom_id in enumerate(waiting_ids):
            result = self._life.result(wave, custom_id, standing.why)
            if result.ok:
                self._give(custom_id, result)
            else:
                failures[custom_id] = result
            if number % _TURN == 0:
                await asyncio.sleep(0)
        if failures:
            await asyncio.sleep(_QUIET)
        for custom_id, result in failures.items():
            self._give(custom_id, result)

    def _give_all(self, ids: Iterable[str], result: Result) -> None:
        """Give the callers of some requests the same result."""
        for custom_id in ids:
            self._give(custom_id, result)

    def _give(self, custom_id: str, result: Result) -> None:
        """Give the caller of a request its result, if it still waits."""
        self._batch_of.pop(custom_id, None)
        future = self._waiting.get(custom_id)
        if future is not None and not future.done():
            future.set_result(result)

    def _fail(self, ids: Iterable[str], error: BaseException) -> None:
        """Raise an error in the callers of some requests, a copy in each."""
        for custom_id in ids:
            future = self._waiting.get(custom_id)
            if future is not None and not future.done():
                future.set_exception(copy.copy(error))
