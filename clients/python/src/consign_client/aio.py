"""The operations of `consign_client` on asynchronous connections, in the caller's transaction.

`db` is a connection of asyncpg, an AsyncConnection of psycopg 3, or an AsyncConnection or
AsyncSession of SQLAlchemy.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Iterable, List, Mapping, Optional, Sequence

from . import calls
from .drivers import run_async
from .model import Enqueued, Lease, Message, Recorded, Report


async def enqueue(
    db: Any,
    queue: str,
    payload: Any,
    *,
    key: Optional[str] = None,
    group: Optional[str] = None,
    headers: Optional[Mapping[str, Any]] = None,
    delay: Optional[timedelta] = None,
    at: Optional[datetime] = None,
) -> int:
    """Enqueues one message and returns its id; a repeated key returns that of the first."""
    message = Message(payload, key, group, headers, delay=delay, at=at)
    return int((await run_async(db, *calls.enqueue(queue, message)))[0][0])


async def enqueue_many(
    db: Any,
    queue: str,
    messages: Iterable[Any],
    *,
    delay: Optional[timedelta] = None,
    at: Optional[datetime] = None,
) -> List[Enqueued]:
    """Enqueues payloads or `Message`s of one queue in one call: all or none, in their order."""
    many = calls.as_messages(messages)
    return calls.enqueued(await run_async(db, *calls.enqueue_many(queue, many, delay, at)))


async def enqueue_mixed(db: Any, messages: Iterable[Message]) -> List[Enqueued]:
    """The same for messages of several queues and times."""
    return calls.enqueued(await run_async(db, *calls.enqueue_mixed(list(messages))))


async def claim(
    db: Any, queue: str, owner: str, limit: int = 1, lease: Optional[timedelta] = None
) -> Optional[Lease]:
    """Leases up to `limit` due messages, or returns None. Commit before you deliver."""
    return calls.claimed(queue, await run_async(db, *calls.claim(queue, owner, limit, lease)))


async def renew(db: Any, token: str, lease: timedelta) -> None:
    """Extends a live lease to `lease` from now."""
    await run_async(db, *calls.renew(token, lease))


async def begin(db: Any, token: str, ids: Iterable[int]) -> None:
    """Records that the transport calls of these messages are about to start."""
    await run_async(db, *calls.begin(token, ids))


async def settle(db: Any, token: str, reports: Sequence[Report]) -> List[Recorded]:
    """Records outcomes. A repeat with the same token returns what was recorded."""
    return calls.recorded(await run_async(db, *calls.settle(token, reports)))


async def record_late(db: Any, token: str, reports: Sequence[Report]) -> List[int]:
    """Records results that came after the lease had ended, as evidence."""
    return calls.ids(await run_async(db, *calls.record_late(token, reports)))


async def release(db: Any, token: str) -> List[int]:
    """Releases the messages of a lease that have not begun."""
    return calls.ids(await run_async(db, *calls.release(token)))
