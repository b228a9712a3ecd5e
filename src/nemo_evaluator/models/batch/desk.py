"""The desk: collects requests into batches, carries those through, and finds them again after a crash."""

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
# A batch is closed when nobody has asked for so long and every step waits; at the latest after the second.
_QUIET: Final = 0.1
_LINGER: Final = 600.0
# Looks at a batch come after a twentieth of its age, within these bounds.
_SOONEST: Final = 0.1
_LATEST: Final = 60.0
# How many results are handed out before others get their turn.
_TURN: Final = 100
TOO_MANY_TOKENS: Final = "token_limit_exceeded"
ABSENT: Final = Result(why="absent")
THROTTLED: Final = Result(why="throttled")


class Desk:
    """Gives each request its result, by way of a vendor's batches that its ledger knows."""

    def __init__(self, vendor: Vendor, settings: BatchSettings, path: str) -> None:
        self._vendor = vendor
        self._settings = settings
        self._path = path
        assert settings.folder is not None
        self._ledger = BatchLedger(settings.folder)
        self._cap = min(settings.max_requests, vendor.most)
        self._waits = vendor.endpoint.timeouts
        # Which batch has, or may have, a request; who waits for its result.
        self._homes: dict[str, Wave] = {}
        self._waiting: dict[str, asyncio.Future[Result]] = {}
        # Ids that an earlier session had a result for which was no answer.
        self.spent: set[str] = set()
        self._pending: deque[tuple[str, bytes]] = deque()
        self._size = 0
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._first = self._last = 0.0
        self._slots: Slots | None = None
        self._interrupted: Callable[[], bool] = lambda: False
        self._detached = False
        for wave in self._ledger.waves.values():
            self._take_up(wave)

    async def result(
        self, custom_id: str, line: bytes, interrupted: Callable[[], bool] | None
    ) -> Result:
        """The result of one request: of the batch that has it, or of the next one."""
        self._slots = current_slots.get()
        self._interrupted = interrupted or self._interrupted
        wave = self._homes.get(custom_id)
        if wave is not None and wave.error is not None:
            raise copy.copy(wave.error)
        if wave is not None and wave.state is State.COLLECTED:
            self._homes.pop(custom_id)
            return self._read(wave, custom_id)
        future: asyncio.Future[Result]
        future = self._waiting[custom_id] = asyncio.get_running_loop().create_future()
        if wave is None:
            if self._pending:
                self._first = self._first
            else:
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
        """Let go: batches that are under way are cancelled, unless they were left on purpose or out of reach.

        What they have done is collected by the next session.
        """
        if self._timer is not None:
            self._timer.cancel()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for wave in self._ledger.waves.values():
            if (
                wave.batch
                and wave.state.open
                and not wave.asked_at
                and wave.error is None
                and not self._detached
            ):
                await self._cancel(wave)
        self._ledger.close()

    def _take_up(self, wave: Wave) -> None:
        """What an earlier session left: results to hand out, or a batch to look after."""
        if wave.state is State.COLLECTED:
            for custom_id in wave.ids:
                row = self._ledger.line(wave, custom_id)
                if row is not None and self._vendor.result(row).ok:
                    self._homes[custom_id] = wave
                else:
                    self.spent.add(custom_id)
        elif wave.state.open:
            self._homes.update(dict.fromkeys(wave.ids, wave))
            self._start(wave, self._follow(wave))

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_QUIET, self._tick)

    def _tick(self) -> None:
        """Nothing new for a while: close the batch, or leave those that are under way."""
        self._timer = None
        now = monotonic()
        idle = self._slots is None or self._slots.idle
        if self._interrupted():
            gone = InterruptedRunError(
                "the run was interrupted before this request was submitted", attempts=0
            )
            self._fail([custom_id for custom_id, _ in self._pending], gone)
            self._pending.clear()
        elif now - self._last >= _QUIET and (
            idle or (self._pending and now - self._first > _LINGER)
        ):
            if self._pending:
                self._launch()
            elif (
                self._settings.detach
                and self._waiting
                and all(self._ledger.waves[one].looked for one in self._tasks)
            ):
                self._leave()
        if self._pending or (self._settings.detach and self._waiting):
            self._arm()

    def _leave(self) -> None:
        self._detached = True
        names = ", ".join(self._ledger.waves[one].batch for one in self._tasks)
        text = f"submitted and left to the vendor: {names}"
        hint = "run the same command with --resume to collect the results; `nel eval status` shows what is open"
        self._fail(list(self._waiting), DetachedError(text, hint=hint))

    def _launch(self) -> None:
        """Submit what was asked for, as far as somebody still waits for it."""
        while self._pending:
            lines: dict[str, bytes] = {}
            while self._pending and len(lines) < self._cap:
                custom_id, line = self._pending.popleft()
                self._size -= len(line)
                if custom_id in self._waiting:
                    lines[custom_id] = line
            if lines:
                wave = Wave(uuid.uuid4().hex, list(lines))
                self._homes.update(dict.fromkeys(wave.ids, wave))
                self._start(wave, self._carry(wave, lines))

    def _start(self, wave: Wave, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[wave.nonce] = asyncio.create_task(work)
        task.add_done_callback(partial(self._ended, wave))

    def _ended(self, wave: Wave, task: asyncio.Task[None]) -> None:
        self._tasks.pop(wave.nonce, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            wave.error = error
            self._fail(wave.ids, error)

    def _fail(self, ids: list[str], error: BaseException) -> None:
        for custom_id in ids:
            future = self._waiting.get(custom_id)
            if future is not None and not future.done():
                future.set_exception(copy.copy(error))

    async def _carry(self, wave: Wave, lines: dict[str, bytes]) -> None:
        """A batch from its first line to its results."""
        await self._submit(wave, list(lines.values()))
        lines.clear()
        await self._follow(wave)

    async def _submit(self, wave: Wave, lines: list[bytes]) -> None:
        """Hand a batch over; where it stays open whether that happened, its state is still that of the intention."""
        note = self._ledger.note
        vendor = self._vendor
        whole = hashlib.sha256(b"\n".join(lines)).hexdigest()
        note(wave, State.PREPARED, ids=wave.ids, bytes=sum(map(len, lines)), sha256=whole)
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
        """A batch that the vendor has, or may have, to its end."""
        if wave.state is State.SUBMITTING and not await self._found(wave):
            self._forget(wave)
            return
        try:
            standing = await self._ended_standing(wave)
            await self._steady(self._collect, wave, standing)
        except NotFoundError:
            if not wave.changed:
                raise
            log.warning(
                "%s no longer has batch %s: nel asks its requests again",
                self._vendor.endpoint.name,
                wave.batch,
            )
            self._forget(wave)
            return
        await self._hand_out(wave, standing)

    def _forget(self, wave: Wave) -> None:
        """The vendor does not have a batch: whoever waits for it asks anew."""
        self._ledger.note(wave, State.ABSENT)
        self._give(wave, dict.fromkeys(wave.ids, ABSENT))

    async def _ended_standing(self, wave: Wave) -> Standing:
        """How a batch stands once it has ended; it is cancelled when it takes too long, or the run is interrupted."""
        while not (standing := await self._steady(self._vendor.look, wave.batch)).end:
            wave.looked = True
            late = monotonic() - wave.began > self._settings.max_wait
            if not wave.asked_at and (late or self._interrupted()):
                wave.overdue = late
                await self._cancel(wave)
            elif wave.asked_at and monotonic() - wave.asked_at > self._waits.first_byte:
                text = f"batch {wave.batch} was cancelled {self._waits.first_byte:g} s ago and has not ended"
                stuck = TransportError(
                    text, hint="run again with --resume later: what it has done is collected then"
                )
                stuck.final = True
                raise stuck
            await self._pause(wave.began)
        return standing

    async def _collect(self, wave: Wave, standing: Standing) -> None:
        await self._ledger.keep(wave, self._vendor.download(standing.sources), standing.end)

    async def _found(self, wave: Wave) -> bool:
        """Look for a batch that may have been submitted. While that is open, wait; it is never submitted again."""
        while True:
            taken = {other.batch for other in self._ledger.waves.values() if other.batch}
            batch = await self._steady(self._vendor.find, wave, taken)
            if batch:
                self._ledger.note(wave, State.SUBMITTED, batch=batch)
                return True
            if batch is not None and monotonic() - wave.began > self._waits.first_byte:
                return False
            await self._pause(wave.began)

    async def _cancel(self, wave: Wave) -> None:
        """Ask for the end of a batch. A session that was killed may have meant to: asking twice does no harm."""
        self._ledger.note(wave, State.CANCELLING)
        try:
            await self._vendor.cancel(wave.batch)
        except BoundaryError as error:
            # It may have ended meanwhile, which the next look tells; out of reach, it is asked again after that.
            if isinstance(error, TransportError | RateLimitError):
                return
        wave.asked_at = monotonic()

    async def _hand_out(self, wave: Wave, standing: Standing) -> None:
        """Give everybody who waits the result: answers first, so that they count before failures do."""
        rest: dict[str, Result] = {}
        if standing.code == TOO_MANY_TOKENS and len(wave.ids) > 1:
            # More is under way than the vendor allows: half as much at once, after a while.
            self._cap = max(1, len(wave.ids) // 2)
            await self._pause(monotonic() - 20.0 * _LATEST * bool(len(self._tasks) > 1))
            rest = dict.fromkeys(wave.ids, THROTTLED)
        for number, custom_id in enumerate(
            () if rest else [one for one in wave.ids if one in self._waiting]
        ):
            result = self._read(wave, custom_id, standing.why)
            if result.ok:
                self._give(wave, {custom_id: result})
            else:
                rest[custom_id] = result
            if number % _TURN == 0:
                await asyncio.sleep(0)
        if rest:
            await asyncio.sleep(_QUIET)
            self._give(wave, rest)

    def _give(self, wave: Wave, results: dict[str, Result]) -> None:
        for custom_id, result in results.items():
            self._homes.pop(custom_id, None)
            future = self._waiting.get(custom_id)
            if future is not None and not future.done():
                future.set_result(result)

    def _read(self, wave: Wave, custom_id: str, why: str = "") -> Result:
        row = self._ledger.line(wave, custom_id)
        if row is not None:
            result = self._vendor.result(row)
        else:
            result = Result(why=why or f"no result, {wave.end}")
        if result.status:
            return result
        elsewhere = wave.end == "cancelled" and not wave.cancelled
        if wave.overdue:
            told = f"no answer within max_wait ({self._settings.max_wait:g} s)"
        else:
            told = result.why
        told = f"batch {wave.batch}: {told}{', cancelled by somebody else' if elsewhere else ''}"
        return replace(result, why=told, final=wave.overdue or elsewhere or wave.end == "failed")

    async def _steady(
        self, call: Callable[..., Awaitable[T]], *args: Any, submits: bool = False
    ) -> T:
        """A call that is made again while the vendor cannot be reached, for as long as an outage may last.

        A submission is made again only when it surely did not reach the vendor. Raises OutageError in the end.
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
            await self._pause(monotonic() - 20.0)

    async def _pause(self, since: float) -> None:
        """Wait until the next look at what began at a moment of the monotonic clock; an interrupt ends the waiting."""
        end = monotonic() + min(_LATEST, max(_SOONEST, (monotonic() - since) / 20.0))
        while (left := end - monotonic()) > 0:
            await asyncio.sleep(min(left, 0.25))
            if self._interrupted():
                return
