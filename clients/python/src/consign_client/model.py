"""What goes in and what comes out."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Dict, List, Mapping, Optional, Union


@dataclass(frozen=True)
class Message:
    """A message to enqueue. `queue`, `delay` and `at` count in `enqueue_mixed` only."""

    payload: Any
    key: Optional[str] = None
    group: Optional[str] = None
    headers: Optional[Mapping[str, Any]] = None
    queue: str = "default"
    delay: Optional[timedelta] = None
    at: Optional[datetime] = None


@dataclass(frozen=True)
class Enqueued:
    """One enqueued message. `duplicate`: its key named the message before this call."""

    id: int
    duplicate: bool
    state: str


@dataclass(frozen=True)
class Delivered:
    """The receiver has it. `result` is kept with the attempt."""

    result: Any = None


@dataclass(frozen=True)
class Retry:
    """Try again, by the queue's schedule or after `delay`."""

    code: Optional[str] = None
    detail: Optional[str] = None
    delay: Optional[timedelta] = None


@dataclass(frozen=True)
class Dead:
    """A retry cannot succeed."""

    code: Optional[str] = None
    detail: Optional[str] = None


@dataclass(frozen=True)
class Uncertain:
    """It may have arrived or not; the queue's `on_uncertain` decides."""

    code: Optional[str] = None
    detail: Optional[str] = None


Outcome = Union[Delivered, Retry, Dead, Uncertain]


@dataclass(frozen=True)
class Report:
    """The outcome of one message of a lease."""

    id: int
    outcome: Outcome = Delivered()

    @property
    def word(self) -> str:
        """The name of the outcome in SQL and HTTP."""
        return type(self.outcome).__name__.lower()

    @property
    def code(self) -> Optional[str]:
        return getattr(self.outcome, "code", None)

    @property
    def detail(self) -> Optional[str]:
        return getattr(self.outcome, "detail", None)

    @property
    def result(self) -> Any:
        return getattr(self.outcome, "result", None)

    @property
    def delay(self) -> Optional[timedelta]:
        return getattr(self.outcome, "delay", None)


@dataclass(frozen=True)
class Recorded:
    """What a settle recorded. `repeated`: it had been recorded before."""

    id: int
    attempt_no: int
    outcome: str
    state: str
    repeated: bool


# Of a delivery that is in no lease.
_NEVER = threading.Event()


@dataclass(frozen=True)
class Delivery:
    """A leased message. Pass `fence` to receivers that can reject older ones."""

    id: int
    queue: str
    key: Optional[str]
    group: Optional[str]
    text: str
    headers: Dict[str, Any]
    created_at: datetime
    attempt_no: int
    tries: int
    in_doubt: bool
    fence: int
    _lost: threading.Event = field(default=_NEVER, compare=False, repr=False)

    @property
    def payload(self) -> Any:
        """The payload as Python values. `text` has it to the last digit."""
        return json.loads(self.text)

    @property
    def exact_payload(self) -> Any:
        """The payload with `Decimal` where `float` would round."""
        return json.loads(self.text, parse_float=Decimal)

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt: what receivers detect repeats by."""
        return f"{self.queue}:{self.id if self.key is None else self.key}"

    @property
    def lease_lost(self) -> bool:
        """Whether the lease is known to be lost: stop, another worker may have the message."""
        return self._lost.is_set()


@dataclass(frozen=True)
class Lease:
    """Leased messages. `token` is the permission to settle them: never log or share it."""

    token: str = field(repr=False)
    fence: int
    expires_in: timedelta
    deliveries: List[Delivery]
    lost: threading.Event = field(default_factory=threading.Event, compare=False, repr=False)

    def __post_init__(self) -> None:
        for delivery in self.deliveries:
            object.__setattr__(delivery, "_lost", self.lost)
