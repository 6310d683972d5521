"""Each operation as a statement, its parameters, and what its rows mean."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence

from . import statements
from .drivers import Parameters, Row
from .encoding import to_array, to_column, to_interval, to_json, to_time
from .model import Delivered, Delivery, Enqueued, Lease, Message, Recorded, Report

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Call(NamedTuple):
    """A statement and its parameters."""

    statement: str
    parameters: Parameters


def as_messages(messages: Iterable[Any]) -> List[Message]:
    """Payloads become messages; messages stay."""
    return [each if isinstance(each, Message) else Message(each) for each in messages]


def enqueue(queue: str, message: Message) -> Call:
    headers = None if message.headers is None else to_json(message.headers)
    return Call(
        statements.ENQUEUE,
        [
            queue,
            to_json(message.payload),
            message.key,
            message.group,
            headers,
            to_interval(message.delay),
            to_time(message.at),
        ],
    )


def enqueue_many(
    queue: str,
    messages: Sequence[Message],
    delay: Optional[timedelta],
    at: Optional[datetime],
) -> Call:
    return Call(
        statements.ENQUEUE_MANY,
        [queue, *_columns(messages), to_interval(delay), to_time(at)],
    )


def enqueue_mixed(messages: Sequence[Message]) -> Call:
    return Call(
        statements.ENQUEUE_MIXED,
        [
            to_array(message.queue for message in messages),
            *_columns(messages),
            to_array(to_interval(message.delay or timedelta()) for message in messages),
            to_array(to_time(message.at) for message in messages),
        ],
    )


def _columns(messages: Sequence[Message]) -> List[Optional[str]]:
    return [
        to_array(to_json(message.payload) for message in messages),
        to_column(message.key for message in messages),
        to_column(message.group for message in messages),
        to_array(to_json(message.headers or {}) for message in messages)
        if any(message.headers for message in messages)
        else None,
    ]


def enqueued(rows: Iterable[Row]) -> List[Enqueued]:
    return [Enqueued(int(id), duplicate, state) for id, duplicate, state in rows]


def claim(queue: str, owner: str, limit: int, lease: Optional[timedelta]) -> Call:
    return Call(statements.CLAIM, [queue, owner, str(limit), to_interval(lease)])


def claimed(queue: str, rows: Sequence[Row]) -> Optional[Lease]:
    if not rows:
        return None
    token, fence, expires_in_ms = rows[0][:3]
    deliveries = [
        Delivery(
            id=int(row[3]),
            queue=queue,
            key=row[4],
            group=row[5],
            text=row[6],
            headers=json.loads(row[7]),
            created_at=_EPOCH + timedelta(microseconds=int(row[8])),
            attempt_no=row[9],
            tries=row[10],
            in_doubt=row[11],
            fence=int(fence),
        )
        for row in rows
    ]
    return Lease(token, int(fence), timedelta(milliseconds=int(expires_in_ms)), deliveries)


def renew(token: str, lease: timedelta) -> Call:
    return Call(statements.RENEW, [token, to_interval(lease)])


def begin(token: str, ids: Iterable[int]) -> Call:
    return Call(statements.BEGIN, [token, to_array(map(str, ids))])


def settle(token: str, reports: Sequence[Report]) -> Call:
    delays = to_column(to_interval(report.delay) for report in reports)
    return Call(statements.SETTLE, [token, *_reported(reports), delays])


def record_late(token: str, reports: Sequence[Report]) -> Call:
    return Call(statements.RECORD_LATE, [token, *_reported(reports)])


def _reported(reports: Sequence[Report]) -> List[Optional[str]]:
    results = (None if report.result is None else to_json(report.result) for report in reports)
    return [
        to_array(str(report.id) for report in reports),
        to_array(report.word for report in reports)
        if any(not isinstance(report.outcome, Delivered) for report in reports)
        else None,
        to_column(report.code for report in reports),
        to_column(report.detail for report in reports),
        to_column(results),
    ]


def recorded(rows: Iterable[Row]) -> List[Recorded]:
    return [Recorded(int(row[0]), row[1], row[2], row[3], row[4]) for row in rows]


def release(token: str) -> Call:
    return Call(statements.RELEASE, [token])


def ids(rows: Sequence[Row]) -> List[int]:
    return [int(id) for id in json.loads(rows[0][0] or "[]")]


def find(queue: str, key: Optional[str]) -> Call:
    return Call(statements.FIND, [queue, key])


def register_idle(queue: str, worker: str, limit: timedelta) -> Call:
    return Call(statements.REGISTER_IDLE, [queue, worker, to_interval(limit)])


def look(queue: str, committing: Optional[str]) -> Call:
    return Call(statements.LOOK, [queue, committing])


def seconds_to_wait(until_ms: Optional[str], committing: Optional[str], longest: float) -> float:
    """How long a worker may sleep after a look."""
    if committing not in (None, "{}"):
        return 0.01
    if until_ms is None:
        return longest
    return max(0.0, min(float(until_ms) / 1000, longest))
