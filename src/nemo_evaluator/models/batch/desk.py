"""The desk: collects requests into batches, follows the batches to their end, and finds them after a crash."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from nemo_evaluator.core.errors import (
    BoundaryError,
    DetachedError,
    InterruptedRunError,
    NotFoundError,
    OutageError,
    RateLimitError,
    TransportError,
)
from nemo_evaluator.core.slots import Slots, current_slots
from nemo_evaluator.models.batch.ledger import BatchLedger, State, Wave
from nemo_evaluator.models.batch.vendor import Result, Standing, Vendor, never_sent
from nemo_evaluator.models.endpoint import BatchSettings

T = TypeVar("T")
log = logging.getLogger(__name__)
# A batch is closed after so many seconds without a new request, if every step waits; at the latest after _LINGER.
_QUIET: Final = 0.1
_LINGER: Final = 600.0
# The state of a batch is requested after a twentieth of its age, within these bounds.
_SOONEST: Final = 0.1
_LATEST: Final = 60.0
_SHARE_OF_AGE: Final = 20.0
# How often the results of a batch are downloaded before nel pays for the missing ones again.
_DOWNLOADS: Final = 3
# So many results are handed out before other tasks run.
_TURN: Final = 100
TOO_MANY_TOKENS: Final = "token_limit_exceeded"
ABSENT: Final = Result(why="absent")
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
        self._vendor = vendor
        self._settings = settings
        self._path = path
        assert settings.folder is not None
        self._ledger = BatchLedger(settings.folder)
        self._cap = min(settings.max_requests, vendor.most)
        self._waits = vendor.endpoint.timeouts
        # By id of the request: the batch that has it, or may have it, and the future of its result.
        self._batch_of: dict[str, Wave] = {}
        self._waiting: dict[str, asyncio.Future[Result]] = {}
        self.spent: set[str] = set()
        self.lost: set[str] = set()
        # Requests that are not in a batch yet, and their size in bytes.
        self._pending: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        # When the first and the last of the pending requests arrived.
        self._first = 0.0
        self._last = 0.0
        self._slots: Slots | None = None
        self._interrupted: Callable[[], bool] = lambda: False
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
        """
        self._slots = current_slots.get()
        self._interrupted = interrupted or self._interrupted
        wave = self._batch_of.get(custom_id)
        if wave is not None and wave.error is not None:
            raise copy.copy(wave.error)
        if wave is not None and wave.state is State.COLLECTED:
            self._batch_of.pop(custom_id)
            return self._read(wave, custom_id)
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[custom_id] = future
        if wave is None:
            if not self._pending:
                self._first = monotonic()
            self._pending.append((custom_id, line))
            self._size += len(line)
        self._last = monotonic()
        if len(self._pending) >= self._cap or self._size >= self._vendor.largest:
            self._launch()
        self._arm()
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
            running = wave.batch and wave.state.open and not wave.asked_at
            if running and wave.error is None and not self._detached:
                await self._cancel(wave)
        self._ledger.close()

    def _take_up(self, wave: Wave) -> None:
        """Continue a batch of an earlier session: keep its results, or follow it to its end."""
        if wave.state is State.COLLECTED:
            for custom_id in wave.ids:
                result = self._result_line(wave, custom_id)
                if result.ok:
                    self._batch_of[custom_id] = wave
                    continue
                self.spent.add(custom_id)
                if result.lost:
                    self.lost.add(custom_id)
        elif wave.state.open:
            self._batch_of.update(dict.fromkeys(wave.ids, wave))
            self._start(wave, self._follow(wave))

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._tick)

    def _tick(self) -> None:
        """Submit the pending requests, or leave the running batches, once no new request has come for a while."""
        self._timer = None
        now = monotonic()
        if self._interrupted():
            error = InterruptedRunError(
                "the run was interrupted before this request was submitted", attempts=0
            )
            self._fail([custom_id for custom_id, _ in self._pending], error)
            self._pending.clear()
        elif now - self._last >= _QUIET:
            every_step_waits = self._slots is None or self._slots.idle
            overdue = bool(self._pending) and now - self._first > _LINGER
            if self._pending and (every_step_waits or overdue):
                self._launch()
            elif every_step_waits and self._can_leave():
                self._leave()
        if self._pending or (self._settings.detach and self._waiting):
            self._arm()

    def _can_leave(self) -> bool:
        """Whether the run detaches from its batches, and all of them have been seen at the vendor."""
        if not self._settings.detach or not self._waiting:
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
        """Submit the pending requests whose caller still waits."""
        while self._pending:
            lines: dict[str, bytes] = {}
            while self._pending and len(lines) < self._cap:
                custom_id, line = self._pending.popleft()
                self._size -= len(line)
                if custom_id in self._waiting:
                    lines[custom_id] = line
            if lines:
                wave = Wave(uuid.uuid4().hex, list(lines))
                self._batch_of.update(dict.fromkeys(wave.ids, wave))
                self._start(wave, self._carry(wave, lines))

    def _start(self, wave: Wave, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[wave.nonce] = asyncio.create_task(work)
        task.add_done_callback(partial(self._ended, wave))

    def _ended(self, wave: Wave, task: asyncio.Task[None]) -> None:
        """Pass the error of a batch's task to the callers."""
        self._tasks.pop(wave.nonce, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            wave.error = error
            self._fail(wave.ids, error)

    def _fail(self, ids: list[str], error: BaseException) -> None:
        for custom_id in ids:
            future = self._waiting.get(custom_id)
            if future is not None and not future.done():
                future.set_exception(copy.copy(error))

    async def _carry(self, wave: Wave, lines: dict[str, bytes]) -> None:
        """Submit a batch and follow it to its end."""
        await self._submit(wave, list(lines.values()))
        lines.clear()
        await self._follow(wave)

    async def _submit(self, wave: Wave, lines: list[bytes]) -> None:
        """Submit a batch. If it is unknown whether the vendor got it, its state stays SUBMITTING."""
        note = self._ledger.note
        vendor = self._vendor
        sha256 = hashlib.sha256(b"\n".join(lines)).hexdigest()
        note(wave, State.PREPARED, ids=wave.ids, bytes=sum(map(len, lines)), sha256=sha256)
        note(wave, State.UPLOADING)
        file = await self._steady(vendor.upload, wave, lines)
        note(wave, State.UPLOADED, file=file)
        note(wave, State.SUBMITTING)
        try:
            batch = await self._steady(vendor.submit, wave, self._path, file, lines, submits=True)
        except BoundaryError as error:
            if isinstance(error, TransportError) and not isinstance(error, OutageError):
                return
            note(wave, State.ABSENT)
            raise
        note(wave, State.SUBMITTED, batch=batch)

    async def _follow(self, wave: Wave) -> None:
        """Follow a batch that the vendor has, or may have, to its end, and hand out its results."""
        if wave.state is State.SUBMITTING and not await self._found(wave):
            self._forget(wave)
            return
        try:
            standing = await self._ended_standing(wave)
            await self._collect(wave, standing)
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
        await self._hand_out(wave, standing)

    def _forget(self, wave: Wave) -> None:
        """Put the requests of a batch that the vendor does not have into the next batch."""
        self._ledger.note(wave, State.ABSENT)
        self._give(wave, dict.fromkeys(wave.ids, ABSENT))

    async def _ended_standing(self, wave: Wave) -> Standing:
        """Wait until a batch has ended, and return its state.

        The batch is cancelled if it takes too long or the run is interrupted.
        """
        while True:
            standing = await self._steady(self._vendor.look, wave.batch)
            if standing.end:
                return standing
            wave.looked = True
            is_late = monotonic() - wave.began > self._settings.max_wait
            if not wave.asked_at:
                if is_late or self._interrupted():
                    wave.overdue = is_late
                    await self._cancel(wave)
            elif monotonic() - wave.asked_at > self._waits.first_byte:
                raise self._stuck(wave)
            await self._pause(wave.began)

    def _stuck(self, wave: Wave) -> TransportError:
        """Return the error of a batch that does not end although it was cancelled."""
        waited = f"{self._waits.first_byte:g} s ago"
        error = TransportError(
            f"batch {wave.batch} was cancelled {waited} and has not ended",
            hint="run again with --resume later: nel then collects its finished results",
        )
        error.final = True
        return error

    async def _collect(self, wave: Wave, standing: Standing) -> None:
        """Store the results of a batch that has ended.

        An incomplete download is repeated: that costs nothing, while a missing answer has to be paid for again.

        Raises:
            TransportError: None of the results could be read.
        """
        expected = min(standing.done or 0, len(wave.ids))
        for download in range(_DOWNLOADS):
            if download:
                await self._pause(monotonic() - _SHARE_OF_AGE)
            await self._steady(self._download, wave, standing)
            if len(wave.offsets) >= expected:
                break
        lost = max(0, expected - len(wave.offsets))
        if lost and not wave.offsets:
            raise self._unreadable(wave, lost)
        if lost:
            log.warning(
                "batch %s: %s of %s results cannot be read after %s downloads; nel sends these requests again, "
                "so they are paid for twice",
                wave.batch,
                lost,
                expected,
                _DOWNLOADS,
            )
        self._ledger.collected(wave, standing.end, lost)

    async def _download(self, wave: Wave, standing: Standing) -> None:
        await self._ledger.store(wave, self._vendor.download(standing.sources))

    def _unreadable(self, wave: Wave, lost: int) -> TransportError:
        """Return the error of a batch of whose results none can be read."""
        error = TransportError(
            f"batch {wave.batch}: none of its {lost} results can be read after {_DOWNLOADS} downloads",
            hint="run again with --resume later: nel then downloads the results again, and pays for none of them twice",
        )
        error.final = True
        return error

    async def _found(self, wave: Wave) -> bool:
        """Find a batch that may have been submitted. Waits until that is known; the batch is never submitted twice."""
        while True:
            known_batches = {
                known_wave.batch for known_wave in self._ledger.waves.values() if known_wave.batch
            }
            batch = await self._steady(self._vendor.find, wave, known_batches)
            if batch:
                self._ledger.note(wave, State.SUBMITTED, batch=batch)
                return True
            if batch is not None and monotonic() - wave.began > self._waits.first_byte:
                return False
            await self._pause(wave.began)

    async def _cancel(self, wave: Wave) -> None:
        """Cancel a batch. A killed session may have done so already: cancelling twice does no harm."""
        self._ledger.note(wave, State.CANCELLING)
        try:
            await self._vendor.cancel(wave.batch)
        except BoundaryError as error:
            # It may have ended meanwhile, which the next check shows. An unreachable vendor is called again after it.
            if isinstance(error, TransportError | RateLimitError):
                return
        wave.asked_at = monotonic()

    async def _hand_out(self, wave: Wave, standing: Standing) -> None:
        """Give the waiting callers their results: answers first, so that they count before failures do."""
        if standing.code == TOO_MANY_TOKENS and len(wave.ids) > 1:
            await self._throttle(wave)
            return
        failures: dict[str, Result] = {}
        waiting_ids = [custom_id for custom_id in wave.ids if custom_id in self._waiting]
        for number, custom_id in enumerate(waiting_ids):
            result = self._read(wave, custom_id, standing.why)
            if result.ok:
                self._give(wave, {custom_id: result})
            else:
                failures[custom_id] = result
            if number % _TURN == 0:
                await asyncio.sleep(0)
        await self._give_later(wave, failures)

    async def _throttle(self, wave: Wave) -> None:
        """Halve the next batches and submit the requests again later: the vendor allows fewer tokens at once."""
        self._cap = max(1, len(wave.ids) // 2)
        others_running = len(self._tasks) > 1
        age = _SHARE_OF_AGE * _LATEST if others_running else 0.0
        await self._pause(monotonic() - age)
        await self._give_later(wave, dict.fromkeys(wave.ids, THROTTLED))

    async def _give_later(self, wave: Wave, results: dict[str, Result]) -> None:
        if results:
            await asyncio.sleep(_QUIET)
            self._give(wave, results)

    def _give(self, wave: Wave, results: dict[str, Result]) -> None:
        for custom_id, result in results.items():
            self._batch_of.pop(custom_id, None)
            future = self._waiting.get(custom_id)
            if future is not None and not future.done():
                future.set_result(result)

    def _read(self, wave: Wave, custom_id: str, why: str = "") -> Result:
        """Return the result of a request in a batch that has ended.

        Args:
            wave: The batch.
            custom_id: The id of the request.
            why: The error of the whole batch, if it failed.
        """
        result = self._result_line(wave, custom_id, why)
        if result.status:
            return result
        reason = result.why
        if wave.overdue:
            reason = f"no answer within max_wait ({self._settings.max_wait:g} s)"
        cancelled_elsewhere = wave.end == "cancelled" and not wave.cancelled
        if cancelled_elsewhere:
            reason += ", cancelled by somebody else"
        final = wave.overdue or cancelled_elsewhere or wave.end == "failed"
        return replace(result, why=f"batch {wave.batch}: {reason}", final=final)

    def _result_line(self, wave: Wave, custom_id: str, why: str = "") -> Result:
        """Return the result of a request as the vendor reports it.

        Args:
            wave: The batch.
            custom_id: The id of the request.
            why: The error of the whole batch, if it failed.
        """
        row = self._ledger.line(wave, custom_id)
        if row is not None:
            return self._vendor.result(row)
        if wave.lost:
            return Result(why="its result is missing or damaged", lost=1)
        return Result(why=why or f"no result, {wave.end}")

    async def _steady(
        self, call: Callable[..., Awaitable[T]], *args: Any, submits: bool = False
    ) -> T:
        """Make a call, and retry it while the vendor cannot be reached.

        Args:
            call: The call.
            args: Its arguments.
            submits: The call submits a batch: it is retried only if it certainly did not reach the vendor.

        Raises:
            OutageError: The vendor could not be reached for as long as ``timeouts.outage``.
        """
        began = monotonic()
        while True:
            try:
                return await call(*args)
            except NotFoundError as error:
                error.hint = "is the api_key that of the account which submitted the batch?"
                raise
            except (TransportError, RateLimitError) as error:
                if submits and isinstance(error, TransportError) and not never_sent(error):
                    raise
                if monotonic() - began > self._waits.outage:
                    raise OutageError(
                        error.message, hint="run the same command with --resume later"
                    ) from error
            # A twentieth of this is one second.
            await self._pause(monotonic() - _SHARE_OF_AGE)

    async def _pause(self, since: float) -> None:
        """Wait a twentieth of the time since ``since``, within the bounds; an interrupt ends the wait."""
        end = monotonic() + min(_LATEST, max(_SOONEST, (monotonic() - since) / _SHARE_OF_AGE))
        while (remaining := end - monotonic()) > 0:
            await asyncio.sleep(min(remaining, 0.25))
            if self._interrupted():
                return
