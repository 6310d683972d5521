"""A worker: claims, renews in the background, settles in batches, and stops cleanly."""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
import uuid
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Protocol, Sequence, Set, Union

from . import calls, sql
from .drivers import run
from .encoding import to_json
from .errors import ConsignError, LeaseLost, Unavailable
from .http import HttpClient
from .model import Delivered, Delivery, Lease, Outcome, Recorded, Report, Retry
from .statements import LISTEN

Handler = Callable[[Delivery], Optional[Outcome]]

_LOG = logging.getLogger("consign")
# How long a worker sleeps at most before it looks at its stop flag.
_NAP_SECONDS = 0.25
_IDLE_SECONDS_MAX = 5.0
_PAUSE_SECONDS_MAX = 10.0
_SETTLE_TRIES_MAX = 5


class Source(Protocol):
    """Where a worker claims and settles: a database or a server."""

    def claim(
        self, queue: str, owner: str, limit: int, lease: Optional[timedelta]
    ) -> Optional[Lease]: ...

    def renew(self, token: str, lease: timedelta) -> None: ...

    def settle(self, token: str, reports: Sequence[Report]) -> List[Recorded]: ...

    def record_late(self, token: str, reports: Sequence[Report]) -> List[int]: ...

    def release(self, token: str) -> List[int]: ...

    def rest(self, queue: str, stop: threading.Event) -> None:
        """Returns when there may be something to claim, or `stop` is set."""

    def reset(self) -> None:
        """Drops the connections of this thread after a failure."""


class SqlSource:
    """The functions of schema `consign`. `connect` opens a connection of psycopg 3 or psycopg2.

    Each thread of a worker opens its own connection.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._local = threading.local()
        self._worker = str(uuid.uuid4())

    def _db(self) -> Any:
        db = getattr(self._local, "db", None)
        if db is None:
            db = self._connect()
            # Each call is a transaction of its own.
            db.autocommit = True
            self._local.db, self._local.listens = db, False
        return db

    def claim(
        self, queue: str, owner: str, limit: int, lease: Optional[timedelta]
    ) -> Optional[Lease]:
        return sql.claim(self._db(), queue, owner, limit, lease)

    def renew(self, token: str, lease: timedelta) -> None:
        sql.renew(self._db(), token, lease)

    def settle(self, token: str, reports: Sequence[Report]) -> List[Recorded]:
        return sql.settle(self._db(), token, reports)

    def record_late(self, token: str, reports: Sequence[Report]) -> List[int]:
        return sql.record_late(self._db(), token, reports)

    def release(self, token: str) -> List[int]:
        return sql.release(self._db(), token)

    def rest(self, queue: str, stop: threading.Event) -> None:
        db = self._db()
        if not self._local.listens:
            run(db, LISTEN)
            self._local.listens = True
        limit = timedelta(seconds=_IDLE_SECONDS_MAX)
        run(db, *calls.register_idle(queue, self._worker, limit))
        # A producer may have committed just before the registration: the look finds it.
        until_ms, committing = run(db, *calls.look(queue, None))[0]
        ends = time.monotonic() + calls.seconds_to_wait(until_ms, committing, _IDLE_SECONDS_MAX)
        while not stop.is_set():
            left = ends - time.monotonic()
            if left <= 0 or _notified(db, min(left, _NAP_SECONDS)):
                return

    def reset(self) -> None:
        db = getattr(self._local, "db", None)
        self._local.db = None
        if db is not None:
            try:
                db.close()
            except Exception as error:
                _LOG.debug("closing a broken connection failed: %s", error)


def _notified(db: Any, seconds: float) -> bool:
    """Waits for a notification on a connection of psycopg 3 or psycopg2."""
    if type(db).__module__.startswith("psycopg2"):
        if not db.notifies:
            select.select([db], [], [], seconds)
            db.poll()
        found = bool(db.notifies)
        db.notifies.clear()
        return found
    return any(True for _ in db.notifies(timeout=seconds, stop_after=1))


class _HttpSource:
    """A server, which waits for something to claim by itself."""

    def __init__(self, client: HttpClient) -> None:
        self.renew, self.settle = client.renew, client.settle
        self.record_late, self.release, self.reset = client.record_late, client.release, client.close
        self._client = client
        self._is_idle = False

    def claim(
        self, queue: str, owner: str, limit: int, lease: Optional[timedelta]
    ) -> Optional[Lease]:
        # A short wait, so that a stop is soon noticed.
        wait_for = timedelta(seconds=1) if self._is_idle else None
        return self._client.claim(queue, owner, limit, lease, wait_for)

    def rest(self, queue: str, stop: threading.Event) -> None:
        self._is_idle = True


class Worker:
    """Works a queue: calls `handler` with each message and reports what it returns.

    A handler that returns None delivered the message; one that raises is retried by the queue's
    schedule. `threads` handlers run at once. After SIGTERM, SIGINT or `stop()` the running
    handlers finish, their outcomes are settled, and the rest of the lease is released.
    """

    def __init__(
        self,
        source: Union[HttpClient, Source],
        queue: str,
        handler: Handler,
        *,
        batch: int = 10,
        threads: int = 1,
        lease: Optional[timedelta] = None,
        owner: Optional[str] = None,
        settle_every: timedelta = timedelta(seconds=1),
    ) -> None:
        self._source: Source = _HttpSource(source) if isinstance(source, HttpClient) else source
        self._queue, self._handler = queue, handler
        self._batch, self._threads, self._lease = batch, threads, lease
        self._owner = owner or f"python@{socket.gethostname()}:{os.getpid()}"
        self._settle_every = settle_every.total_seconds()
        self._stop = threading.Event()

    def stop(self) -> None:
        """Ends `run` after the handlers that are running. Any thread may call it."""
        self._stop.set()

    def run(self, *, until_empty: bool = False) -> None:
        """Works until stopped, or until the queue has nothing to claim."""
        former = self._take_signals()
        pool = ThreadPoolExecutor(self._threads, "consign-handler")
        failures = 0
        try:
            while not self._stop.is_set():
                try:
                    lease = self._source.claim(self._queue, self._owner, self._batch, self._lease)
                    if lease is not None:
                        self._work(lease, pool)
                    elif until_empty:
                        return
                    else:
                        self._source.rest(self._queue, self._stop)
                    failures = 0
                except ConsignError as error:
                    if not isinstance(error, Unavailable):
                        raise
                    failures = self._pause(error, failures)
                except Exception as error:
                    failures = self._pause(error, failures)
        finally:
            pool.shutdown()
            self._source.reset()
            for number, handler in former.items():
                signal.signal(number, handler)

    def _take_signals(self) -> Dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        numbers = (signal.SIGTERM, signal.SIGINT)
        return {number: signal.signal(number, lambda *_: self.stop()) for number in numbers}

    def _pause(self, error: Exception, failures: int) -> int:
        _LOG.warning("claiming from queue %s failed: %s", self._queue, error)
        self._source.reset()
        self._stop.wait(min(_PAUSE_SECONDS_MAX, 0.1 * 2**failures))
        return min(failures + 1, 10)

    def _work(self, lease: Lease, pool: ThreadPoolExecutor) -> None:
        held = _Held(self._source, lease)
        waiting = list(reversed(lease.deliveries))
        running: Set[Future[Report]] = set()
        reports: List[Report] = []
        settled_at = time.monotonic()
        try:
            while running or (waiting and self._may_begin(held)):
                while waiting and len(running) < self._threads and self._may_begin(held):
                    running.add(pool.submit(self._handle, waiting.pop()))
                done, running = wait(running, self._settle_every, FIRST_COMPLETED)
                reports.extend(future.result() for future in done)
                if reports and time.monotonic() - settled_at >= self._settle_every:
                    reports = self._settle(held, reports)
                    settled_at = time.monotonic()
            self._settle(held, reports)
            if waiting and not held.lost.is_set():
                released = self._source.release(lease.token)
                _LOG.info("released %d messages of queue %s", len(released), self._queue)
        except LeaseLost:
            _LOG.info("the lease with fence %d ended before its rest was released", lease.fence)
        finally:
            held.end()

    def _may_begin(self, held: "_Held") -> bool:
        return not self._stop.is_set() and not held.lost.is_set()

    def _handle(self, delivery: Delivery) -> Report:
        try:
            report = Report(delivery.id, self._handler(delivery) or Delivered())
            # A result that is no JSON is the handler's failure, not that of the whole settle.
            to_json(report.result)
            return report
        except Exception as error:
            _LOG.exception("the handler failed for message %d", delivery.id)
            return Report(delivery.id, Retry("handler_failed", f"{type(error).__name__}: {error}"))

    def _settle(self, held: "_Held", reports: List[Report]) -> List[Report]:
        """Settles, again after an unknown outcome, and returns the reports that are left: none."""
        if not reports:
            return []
        token = held.lease.token
        for attempt in range(1, _SETTLE_TRIES_MAX + 1):
            try:
                self._source.settle(token, reports)
                break
            except LeaseLost:
                held.lost.set()
                kept = self._source.record_late(token, reports)
                _LOG.warning("lease lost: %d results recorded as late", len(kept))
                break
            except Exception as error:
                if is_final(error):
                    # The messages come back when the lease expires.
                    _LOG.error("a settle was rejected: %s", error)
                    break
                if attempt == _SETTLE_TRIES_MAX:
                    raise
                _LOG.warning("a settle failed and is repeated: %s", error)
                self._source.reset()
                time.sleep(0.1 * 2**attempt)
        return []


def is_final(error: Exception) -> bool:
    """Whether a repeat of the call cannot succeed."""
    return isinstance(error, ConsignError) and not isinstance(error, Unavailable)


class _Held:
    """A lease that a thread renews at a third of its length until it ends."""

    def __init__(self, source: Source, lease: Lease) -> None:
        self.lease = lease
        self.lost = lease.lost
        self._source = source
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="consign-renew", daemon=True)
        self._thread.start()

    def _renew(self) -> None:
        ttl = self.lease.expires_in
        period = ttl.total_seconds() / 3
        ends = time.monotonic() + ttl.total_seconds()
        try:
            while not self._ended.wait(period):
                try:
                    began = time.monotonic()
                    self._source.renew(self.lease.token, ttl)
                    ends = began + ttl.total_seconds()
                except LeaseLost:
                    self.lost.set()
                    return
                except Exception as error:
                    _LOG.warning("a renewal failed: %s", error)
                    self._source.reset()
                    if time.monotonic() >= ends:
                        self.lost.set()
                        return
        finally:
            self._source.reset()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()
