"""For receivers of webhooks: verify signatures, reject older fences, recognise repetitions."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from dataclasses import dataclass
from enum import Enum
from typing import Any, Iterable, List, Mapping, Optional, Union

from . import drivers

TOLERANCE_SECONDS = 300

# In the receiver's own database. One table per sender: fences of several databases do not compare.
CREATE_TABLE = (
    "CREATE TABLE IF NOT EXISTS consign_received (webhook_id text PRIMARY KEY, "
    "fence bigint NOT NULL, times bigint NOT NULL, received_at timestamptz NOT NULL)"
)
RECORD = (
    "INSERT INTO consign_received AS r (webhook_id, fence, times, received_at) "
    "VALUES (CAST($1 AS text), CAST($2 AS text)::bigint, 1, now()) "
    "ON CONFLICT (webhook_id) DO UPDATE SET fence = excluded.fence, times = r.times + 1 "
    "WHERE r.fence <= excluded.fence RETURNING times::text AS times"
)


class Rejected(Exception):
    """The request is not what a holder of the secret sent just now. Answer 401."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Webhook:
    """A request whose signature is right. `fence` is None if the sender is not consign."""

    id: str
    timestamp: int
    message_id: Optional[int]
    attempt_no: Optional[int]
    fence: Optional[int]
    body: bytes


class Verifier:
    """Verifies Standard Webhooks signatures by shared secrets, `whsec_…`.

    Several secrets, separated by blanks or in a list, allow a rotation. Signatures by ed25519
    keys (`v1a`) need a library that Python does not bring, and are ignored.
    """

    def __init__(
        self, secrets: Union[str, Iterable[str]], tolerance_seconds: int = TOLERANCE_SECONDS
    ) -> None:
        listed = secrets.split() if isinstance(secrets, str) else list(secrets)
        self._keys = [_key(secret) for secret in listed]
        if not self._keys:
            raise ValueError("there is no secret")
        self._tolerance = tolerance_seconds

    def verify(
        self, headers: Mapping[str, str], body: bytes, now: Optional[float] = None
    ) -> Webhook:
        """Returns the webhook, or raises `Rejected`. `body` is the bytes as they came in."""
        lower = {name.lower(): value for name, value in headers.items()}
        webhook_id = _required(lower, "webhook-id")
        stamp = _required(lower, "webhook-timestamp")
        signatures = _required(lower, "webhook-signature")
        if not (stamp.isascii() and stamp.isdigit()):
            raise Rejected("timestamp_invalid", f"webhook-timestamp {stamp!r} is no number")
        content = f"{webhook_id}.{stamp}.".encode() + body
        given = [_decoded(each[3:]) for each in signatures.split() if each.startswith("v1,")]
        if not self._matches(content, given):
            raise Rejected("signature_invalid", "no signature was made with a known secret")
        age = (time.time() if now is None else now) - int(stamp)
        if abs(age) > self._tolerance:
            raise Rejected("timestamp_out_of_tolerance", f"signed {age:.0f} seconds ago")
        return Webhook(
            id=webhook_id,
            timestamp=int(stamp),
            message_id=_number(lower.get("consign-message-id")),
            attempt_no=_number(lower.get("consign-attempt")),
            fence=_number(lower.get("consign-fence")),
            body=body,
        )

    def _matches(self, content: bytes, given: List[bytes]) -> bool:
        expected = [hmac.new(key, content, hashlib.sha256).digest() for key in self._keys]
        # Every pair is compared, in constant time each.
        matches = [hmac.compare_digest(one, other) for one in expected for other in given]
        return any(matches)


class Receipt(Enum):
    """What a request is to a receiver that recorded it."""

    FIRST = "first"
    """Apply it, in the same transaction."""
    REPEATED = "repeated"
    """Applied before: answer as then, and apply nothing."""
    STALE = "stale"
    """From a worker that has lost its lease: reject it, for example with 409."""


def create_table(db: Any) -> None:
    """Creates `consign_received` in the receiver's database."""
    drivers.run(db, CREATE_TABLE)


def record(db: Any, webhook: Webhook) -> Receipt:
    """Records a request in the caller's transaction, which applies it if it is the first.

    Of two equal requests at once, the second waits here until the first is committed.
    """
    return _receipt(drivers.run(db, RECORD, _parameters(webhook)))


async def create_table_async(db: Any) -> None:
    """The same on an asynchronous connection."""
    await drivers.run_async(db, CREATE_TABLE)


async def record_async(db: Any, webhook: Webhook) -> Receipt:
    """The same on an asynchronous connection."""
    return _receipt(await drivers.run_async(db, RECORD, _parameters(webhook)))


def _parameters(webhook: Webhook) -> List[Optional[str]]:
    return [webhook.id, str(0 if webhook.fence is None else webhook.fence)]


def _receipt(rows: List[drivers.Row]) -> Receipt:
    if not rows:
        return Receipt.STALE
    return Receipt.FIRST if rows[0][0] == "1" else Receipt.REPEATED


def _key(secret: str) -> bytes:
    if not secret.startswith("whsec_"):
        raise ValueError("a secret must start with `whsec_`")
    try:
        return base64.b64decode(secret[len("whsec_") :], validate=True)
    except binascii.Error:
        raise ValueError("a secret is not base64 after its prefix") from None


def _decoded(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except binascii.Error:
        return b""


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise Rejected("header_missing", f"the header {name} is missing")
    return value


def _number(text: Optional[str]) -> Optional[int]:
    return int(text) if text and text.isascii() and text.isdigit() else None
