"""Client of consign: enqueue in your transaction, work, and receive webhooks.

Nothing here decides anything: the functions of schema `consign` and the HTTP API do.
"""

from .encoding import Raw
from .errors import (
    ConsignError,
    Forbidden,
    InvalidInput,
    KeyConflict,
    LeaseLost,
    NotInLease,
    PayloadTooLarge,
    Unavailable,
    UnknownQueue,
)
from .http import HttpClient
from .model import (
    Dead,
    Delivered,
    Delivery,
    Enqueued,
    Lease,
    Message,
    Outcome,
    Recorded,
    Report,
    Retry,
    Uncertain,
)
from .sql import (
    begin,
    claim,
    enqueue,
    enqueue_many,
    enqueue_mixed,
    record_late,
    release,
    renew,
    settle,
)
from .worker import SqlSource, Worker

__all__ = [
    "ConsignError",
    "Dead",
    "Delivered",
    "Delivery",
    "Enqueued",
    "Forbidden",
    "HttpClient",
    "InvalidInput",
    "KeyConflict",
    "Lease",
    "LeaseLost",
    "Message",
    "NotInLease",
    "Outcome",
    "PayloadTooLarge",
    "Raw",
    "Recorded",
    "Report",
    "Retry",
    "SqlSource",
    "Unavailable",
    "Uncertain",
    "UnknownQueue",
    "Worker",
    "begin",
    "claim",
    "enqueue",
    "enqueue_many",
    "enqueue_mixed",
    "record_late",
    "release",
    "renew",
    "settle",
]
