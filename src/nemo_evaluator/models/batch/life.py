"""The life of a batch at the vendor: submitted, found after a crash, followed to its end, cancelled, collected."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from typing import Final

from nemo_evaluator.core.errors import (
    BoundaryError,
    OutageError,
    RateLimitError,
    TransportError,
)
from nemo_evaluator.models.batch.ledger import BatchLedger, State, Wave
from nemo_evaluator.models.batch.patience import RETRY_PAUSE, Patience
from nemo_evaluator.models.batch.vendor import Result, Standing, Vendor

log = logging.getLogger(__name__)
# How often the results of a batch are downloaded before nel pays for the missing ones again.
_DOWNLOADS: Final = 3


class BatchLife:
    """Takes batches through their states, and notes each in the ledger before the call that changes it.

    Args:
        vendor: The vendor.
        ledger: The ledger.
        patience: Waits between calls.
        max_wait: A batch that has not ended after so many seconds is cancelled.
    """

    def __init__(
        self, vendor: Vendor, ledger: BatchLedger, patience: Patience, max_wait: float
    ) -> None:
        self._vendor = vendor
        self._ledger = ledger
        self._patience = patience
        self._max_wait = max_wait
        # A batch that may have been submitted, or was cancelled, shows that after so many seconds at the latest.
        self._bound = vendor.endpoint.timeouts.first_byte

    async def submit(self, wave: Wave, path: str, lines: Sequence[bytes]) -> None:
        """Submit a batch. If it is unknown whether the vendor got it, its state stays SUBMITTING.

        Args:
            wave: The batch.
            path: The path of the requests.
            lines: The requests in the form of the vendor.

        Raises:
            BoundaryError: The vendor did not get the batch.
        """
        note = self._ledger.note
        vendor = self._vendor
        size = sum(len(line) for line in lines)
        sha256 = hashlib.sha256(b"\n".join(lines)).hexdigest()
        note(wave, State.PREPARED, ids=wave.ids, bytes=size, sha256=sha256)
        note(wave, State.UPLOADING)
        file = await self._patience.call(vendor.upload, wave, lines)
        note(wave, State.UPLOADED, file=file)
        note(wave, State.SUBMITTING)
        try:
            batch = await self._patience.call(vendor.submit, wave, path, file, lines, submits=True)
        except BoundaryError as error:
            may_have_arrived = isinstance(error, TransportError)
            if may_have_arrived and not isinstance(error, OutageError):
                return
            note(wave, State.ABSENT)
            raise
        note(wave, State.SUBMITTED, batch=batch)

    async def found(self, wave: Wave) -> bool:
        """Find a batch that may have been submitted.

        Waits until it is known whether the vendor has it, because a batch must never be submitted twice.
        """
        while True:
            known_batches: set[str] = set()
            for known_wave in self._ledger.waves.values():
                if known_wave.batch:
                    known_batches.add(known_wave.batch)
            batch = await self._patience.call(self._vendor.find, wave, known_batches)
            if batch:
                self._ledger.note(wave, State.SUBMITTED, batch=batch)
                return True
            # None: the vendor's list does not show yet whether it has the batch.
            is_absent = batch is not None
            if is_absent and monotonic() - wave.began > self._bound:
                return False
            await self._patience.pause_by_age(wave.began)

    async def ended(self, wave: Wave) -> Standing:
        """Wait until a batch has ended, and return its state.

        The batch is cancelled if it takes too long or the run is interrupted.

        Raises:
            TransportError: The batch was cancelled and does not end.
            NotFoundError: The vendor does not have the batch.
        """
        while True:
            standing = await self._patience.call(self._vendor.look, wave.batch)
            if standing.end:
                return standing
            wave.looked = True
            await self._cancel_if_due(wave)
            await self._patience.pause_by_age(wave.began)

    async def _cancel_if_due(self, wave: Wave) -> None:
        """Cancel a running batch that takes too long, or whose run was interrupted.

        Raises:
            TransportError: That happened too long ago.
        """
        if wave.asked_at:
            if monotonic() - wave.asked_at > self._bound:
                raise self._stuck(wave)
            return
        is_late = monotonic() - wave.began > self._max_wait
        if is_late or self._patience.interrupted():
            wave.overdue = is_late
            await self.cancel(wave)

    def _stuck(self, wave: Wave) -> TransportError:
        """Return the error of a batch that does not end although it was cancelled."""
        error = TransportError(
            f"batch {wave.batch} was cancelled {self._bound:g} s ago and has not ended",
            hint="run again with --resume later: nel then collects its finished results",
        )
        error.final = True
        return error

    async def cancel(self, wave: Wave) -> None:
        """Cancel a batch. A killed session may have done so already: cancelling twice does no harm."""
        self._ledger.note(wave, State.CANCELLING)
        try:
            await self._vendor.cancel(wave.batch)
        except (TransportError, RateLimitError):
            # The next look at the batch cancels it again.
            return
        except BoundaryError:
            # The batch may have ended meanwhile, which the next look shows.
            pass
        wave.asked_at = monotonic()

    async def collect(self, wave: Wave, standing: Standing) -> None:
        """Store the results of a batch that has ended.

        An incomplete download is repeated: that costs nothing, while a missing answer has to be paid for again.

        Raises:
            TransportError: None of the results could be read.
            NotFoundError: The vendor does not have them.
        """
        expected = min(standing.done or 0, len(wave.ids))
        for download in range(_DOWNLOADS):
            if download > 0:
                await self._patience.pause(RETRY_PAUSE)
            await self._patience.call(self._download, wave, standing)
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
        """Download the results of a batch to the ledger."""
        await self._ledger.store(wave, self._vendor.download(standing.sources))

    def _unreadable(self, wave: Wave, lost: int) -> TransportError:
        """Return the error of a batch of whose results none can be read."""
        error = TransportError(
            f"batch {wave.batch}: none of its {lost} results can be read after {_DOWNLOADS} downloads",
            hint="run again with --resume later: nel then downloads the results again, and pays for none of them twice",
        )
        error.final = True
        return error

    def result(self, wave: Wave, custom_id: str, why: str = "") -> Result:
        """Return the result of a request in a batch that has ended.

        A request that was not executed gets the reason, and is final if another batch would not execute it either.

        Args:
            wave: The batch.
            custom_id: The id of the request.
            why: The error of the whole batch, if it failed.
        """
        result = self.reported_result(wave, custom_id, why)
        if result.status:
            return result
        reason = result.why
        if wave.overdue:
            reason = f"no answer within max_wait ({self._max_wait:g} s)"
        cancelled_elsewhere = wave.end == "cancelled" and not wave.cancelled
        if cancelled_elsewhere:
            reason += ", cancelled by somebody else"
        final = wave.overdue or cancelled_elsewhere or wave.end == "failed"
        return replace(result, why=f"batch {wave.batch}: {reason}", final=final)

    def reported_result(self, wave: Wave, custom_id: str, why: str = "") -> Result:
        """Return the result of a request as the vendor reports it; the arguments are those of ``result``."""
        row = self._ledger.line(wave, custom_id)
        if row is not None:
            return self._vendor.result(row)
        if wave.lost:
            return Result(why="its result is missing or damaged", lost=1)
        return Result(why=why or f"no result, {wave.end}")
