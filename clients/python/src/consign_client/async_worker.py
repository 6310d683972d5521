"""The worker for asyncio, over a pool of asyncpg."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import uuid
from contextlib import suppress
from datetime import timedelta
from typing import Any, Awaitable, Callable, List, Optional, Sequence, Set

from . import aio, calls
from .drivers import run_async
from .encoding import to_json
from .errors import ConsignError, LeaseLost, Unavailable
from .model import Delivered, Delivery, Lease, Outcome, Report, Retry
from .statements import LISTEN
from .worker import is_final

AsyncHandler = Callable[[Delivery], Awaitable[Optional[Outcome]]]

_LOG = logging.getLogger("consign")
_IDLE_SECONDS_MAX = 5.0
_PAUSE_SECONDS_MAX = 10.0
_SETTLE_TRIES_MAX = 5


class AsyncWorker:
    """Works a queue with a coroutine: see `Worker`, which it resembles in everything.

    `pool` is an asyncpg pool of at least three connections: one listens, one claims and settles,
    one renews. `concurrency` handlers run at once.
    """

    def __init__(
        self,
        pool: Any,
        queue: str,
        handler: AsyncHandler,
        *,
        batch: int = 10,
        concurrency: int = 10,
        lease: Optional[timedelta] = None,
        owner: Optional[str] = None,
        settle_every: timedelta = timedelta(seconds=1),
    ) -> None:
        self._pool, self._queue, self._handler = pool, queue, handler
        self._batch, self._concurrency, self._lease = batch, concurrency, lease
        self._owner = owner or f"python@{socket.gethostname()}:{os.getpid()}"
        self._settle_every = settle_every.total_seconds()
        self._worker = str(uuid.uuid4())
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()

    def stop(self) -> None:
        """Ends `run` after the handlers that are running."""
        self._stop.set()
        self._wake.set()

    async def run(self, *, until_empty: bool = False) -> None:
        """Works until stopped, or until the queue has nothing to claim."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.stop)
        failures = 0
        try:
            while not self._stop.is_set():
                try:
                    lease = await self._claim()
                    if lease is not None:
                        await self._work(lease)
                    elif until_empty:
                        return
                    else:
                        await self._rest()
                    failures = 0
                except Exception as error:
                    if isinstance(error, ConsignError) and not isinstance(error, Unavailable):
                        raise
                    _LOG.warning("claiming from queue %s failed: %s", self._queue, error)
                    await _first(self._stop, min(_PAUSE_SECONDS_MAX, 0.1 * 2**failures))
                    failures = min(failures + 1, 10)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                with suppress(NotImplementedError, RuntimeError, ValueError):
                    loop.remove_signal_handler(number)

    async def _claim(self) -> Optional[Lease]:
        async with self._pool.acquire() as db:
            return await aio.claim(db, self._queue, self._owner, self._batch, self._lease)

    async def _rest(self) -> None:
        def notified(*_: Any) -> None:
            self._wake.set()

        self._wake.clear()
        async with self._pool.acquire() as db:
            # asyncpg sends LISTEN, and UNLISTEN when the last listener is removed.
            await db.add_listener(LISTEN.split()[1], notified)
            try:
                limit = timedelta(seconds=_IDLE_SECONDS_MAX)
                await run_async(db, *calls.register_idle(self._queue, self._worker, limit))
                until_ms, committing = (await run_async(db, *calls.look(self._queue, None)))[0]
                longest = calls.seconds_to_wait(until_ms, committing, _IDLE_SECONDS_MAX)
                if not self._stop.is_set():
                    await _first(self._wake, longest)
            finally:
                await db.remove_listener(LISTEN.split()[1], notified)

    async def _work(self, lease: Lease) -> None:
        lost = lease.lost
        renewal = asyncio.ensure_future(self._renew(lease))
        waiting = list(reversed(lease.deliveries))
        running: Set["asyncio.Future[Report]"] = set()
        reports: List[Report] = []
        loop = asyncio.get_running_loop()
        settled_at = loop.time()
        try:
            while running or (waiting and not self._stop.is_set() and not lost.is_set()):
                may_begin = not self._stop.is_set() and not lost.is_set()
                while may_begin and waiting and len(running) < self._concurrency:
                    running.add(asyncio.ensure_future(self._handle(waiting.pop())))
                done, running = await asyncio.wait(
                    running, timeout=self._settle_every, return_when=asyncio.FIRST_COMPLETED
                )
                reports.extend(future.result() for future in done)
                if reports and loop.time() - settled_at >= self._settle_every:
                    await self._settle(lease, reports)
                    reports, settled_at = [], loop.time()
            if reports:
                await self._settle(lease, reports)
            if waiting and not lost.is_set():
                async with self._pool.acquire() as db:
                    await aio.release(db, lease.token)
        except LeaseLost:
            _LOG.info("the lease with fence %d ended before its rest was released", lease.fence)
        finally:
            renewal.cancel()
            with suppress(asyncio.CancelledError):
                await renewal

    async def _renew(self, lease: Lease) -> None:
        loop = asyncio.get_running_loop()
        seconds = lease.expires_in.total_seconds()
        ends = loop.time() + seconds
        while True:
            await asyncio.sleep(seconds / 3)
            began = loop.time()
            try:
                async with self._pool.acquire() as db:
                    await aio.renew(db, lease.token, lease.expires_in)
                ends = began + seconds
            except LeaseLost:
                lease.lost.set()
                return
            except Exception as error:
                _LOG.warning("a renewal failed: %s", error)
                if loop.time() >= ends:
                    lease.lost.set()
                    return

    async def _handle(self, delivery: Delivery) -> Report:
        try:
            report = Report(delivery.id, await self._handler(delivery) or Delivered())
            to_json(report.result)
            return report
        except Exception as error:
            _LOG.exception("the handler failed for message %d", delivery.id)
            return Report(delivery.id, Retry("handler_failed", f"{type(error).__name__}: {error}"))

    async def _settle(self, lease: Lease, reports: Sequence[Report]) -> None:
        for attempt in range(1, _SETTLE_TRIES_MAX + 1):
            try:
                async with self._pool.acquire() as db:
                    await aio.settle(db, lease.token, reports)
                return
            except LeaseLost:
                lease.lost.set()
                async with self._pool.acquire() as db:
                    kept = await aio.record_late(db, lease.token, reports)
                _LOG.warning("lease lost: %d results recorded as late", len(kept))
                return
            except Exception as error:
                if is_final(error):
                    # The messages come back when the lease expires.
                    _LOG.error("a settle was rejected: %s", error)
                    return
                if attempt == _SETTLE_TRIES_MAX:
                    raise
                _LOG.warning("a settle failed and is repeated: %s", error)
                await asyncio.sleep(0.1 * 2**attempt)


async def _first(event: asyncio.Event, seconds: float) -> None:
    """Returns when the event is set, or after so many seconds."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
