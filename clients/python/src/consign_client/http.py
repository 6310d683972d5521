"""The HTTP API, over connections that stay open, one per thread."""

from __future__ import annotations

import http.client
import json
import threading
import time
from datetime import datetime, timedelta
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import quote, urlsplit

from .calls import as_messages
from .encoding import Raw, document, elements, members, to_json, to_milliseconds, to_time
from .errors import Unavailable, from_problem
from .model import Delivery, Enqueued, Lease, Message, Recorded, Report

# The server closes idle connections; one that was idle for longer is not used again.
_IDLE_SECONDS_MAX = 5.0
_JSON = "application/json"
# What a claim answers about a message, beside its payload and its time.
_DELIVERY = ("id", "queue", "key", "group", "headers", "attempt_no", "tries", "in_doubt")


class HttpClient:
    """A server of consign. Any thread may use it."""

    def __init__(self, url: str, token: Optional[str] = None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http or https address: {url!r}")
        self._is_tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._base = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = timeout
        self._local = threading.local()

    def enqueue(
        self,
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
        path = f"/v1/queues/{quote(queue, safe='')}/messages"
        answer = self._post(path, document(_fields(message)), is_repeatable=key is not None)
        return int(json.loads(answer)["id"])

    def enqueue_many(
        self,
        queue: str,
        messages: Iterable[Any],
        *,
        delay: Optional[timedelta] = None,
        at: Optional[datetime] = None,
        idempotency_key: Optional[str] = None,
    ) -> List[Enqueued]:
        """Enqueues payloads or `Message`s of one queue in one request: all or none."""
        several = (
            [("queue", queue), *_fields(each, delay, at)] for each in as_messages(messages)
        )
        return self._enqueue_batch(several, idempotency_key)

    def enqueue_mixed(
        self, messages: Iterable[Message], *, idempotency_key: Optional[str] = None
    ) -> List[Enqueued]:
        """The same for messages of several queues and times."""
        several = ([("queue", each.queue), *_fields(each)] for each in messages)
        return self._enqueue_batch(several, idempotency_key)

    def _enqueue_batch(
        self, messages: Iterable[Sequence[Tuple[str, Any]]], idempotency_key: Optional[str]
    ) -> List[Enqueued]:
        body = '{"messages":[' + ",".join(map(document, messages)) + "]}"
        headers = {} if idempotency_key is None else {"Idempotency-Key": _quoted(idempotency_key)}
        answer = self._post("/v1/messages", body, headers, idempotency_key is not None)
        return [
            Enqueued(each["id"], each["duplicate"], each["state"])
            for each in json.loads(answer)["messages"]
        ]

    def claim(
        self,
        queue: str,
        owner: str,
        limit: int = 1,
        lease: Optional[timedelta] = None,
        wait: Optional[timedelta] = None,
    ) -> Optional[Lease]:
        """Leases up to `limit` due messages; waits up to `wait` for the first."""
        body = document(
            [
                ("queue", queue),
                ("owner", owner),
                ("limit", limit),
                ("ttl_ms", to_milliseconds(lease)),
                ("wait_ms", to_milliseconds(wait)),
            ]
        )
        answer = self._post("/v1/claims", body, is_repeatable=True)
        return _lease(answer) if answer else None

    def renew(self, token: str, lease: timedelta) -> None:
        """Extends a live lease to `lease` from now."""
        self._lease_post(token, "renew", document([("ttl_ms", to_milliseconds(lease))]))

    def begin(self, token: str, ids: Iterable[int]) -> None:
        """Records that the transport calls of these messages are about to start."""
        self._lease_post(token, "begin", document([("ids", list(ids))]))

    def settle(self, token: str, reports: Sequence[Report]) -> List[Recorded]:
        """Records outcomes. A late settle raises `LeaseLost` and is recorded as evidence."""
        body = '{"reports":[' + ",".join(map(_report, reports)) + "]}"
        answer = json.loads(self._lease_post(token, "settle", body))
        return [
            Recorded(each["id"], each["attempt_no"], each["outcome"], each["state"], answer["repeated"])
            for each in answer["recorded"]
        ]

    def record_late(self, token: str, reports: Sequence[Report]) -> List[int]:
        """Does nothing: the server records the reports of a late settle by itself."""
        return []

    def release(self, token: str) -> List[int]:
        """Releases the messages of a lease that have not begun."""
        return [int(id) for id in json.loads(self._lease_post(token, "release", ""))["ids"]]

    def close(self) -> None:
        """Closes the connection of this thread."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _lease_post(self, token: str, action: str, body: str) -> str:
        return self._post(f"/v1/leases/{quote(token, safe='')}/{action}", body, is_repeatable=True)

    def _post(
        self,
        path: str,
        body: str,
        headers: Optional[Dict[str, str]] = None,
        is_repeatable: bool = False,
    ) -> str:
        """Sends a request, once more if it is repeatable and its connection broke."""
        try:
            return self._send(path, body, headers or {})
        except Unavailable as error:
            if not is_repeatable or error.status is not None:
                raise
        return self._send(path, body, headers or {})

    def _send(self, path: str, body: str, headers: Dict[str, str]) -> str:
        connection = self._connection()
        headers = {**self._headers, **headers}
        if body:
            headers["Content-Type"] = _JSON
        try:
            connection.connect() if connection.sock is None else None
        except OSError as error:
            self.close()
            raise Unavailable(f"cannot connect to {self._host}: {error}", code="unreachable") from error
        try:
            connection.request("POST", self._base + path, body.encode() or None, headers)
            response = connection.getresponse()
            answer = response.read().decode()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise Unavailable(
                f"the connection broke, so that the outcome is unknown: {error!r}",
                code="connection_broken",
                outcome="unknown",
            ) from error
        self._local.used_at = time.monotonic()
        if response.status < 300:
            return answer
        try:
            problem = json.loads(answer)
        except ValueError:
            problem = {}
        retry_after = response.getheader("Retry-After")
        raise from_problem(
            response.status,
            problem if isinstance(problem, dict) else {},
            float(retry_after) if retry_after and retry_after.isdigit() else None,
        )

    def _connection(self) -> http.client.HTTPConnection:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        idle_since = getattr(self._local, "used_at", 0.0)
        if connection is not None and time.monotonic() - idle_since <= _IDLE_SECONDS_MAX:
            return connection
        self.close()
        kind = http.client.HTTPSConnection if self._is_tls else http.client.HTTPConnection
        self._local.connection = kind(self._host, self._port, timeout=self._timeout)
        self._local.used_at = time.monotonic()
        made: http.client.HTTPConnection = self._local.connection
        return made


def _quoted(key: str) -> str:
    return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _fields(
    message: Message, delay: Optional[timedelta] = None, at: Optional[datetime] = None
) -> List[Tuple[str, Any]]:
    # A payload of None is JSON's null, which is not a missing field.
    return [
        ("payload", Raw(to_json(message.payload))),
        ("key", message.key),
        ("group", message.group),
        ("headers", message.headers),
        ("delay_ms", to_milliseconds(message.delay or delay)),
        ("at", to_time(message.at or at)),
    ]


def _report(report: Report) -> str:
    return document(
        [
            ("id", report.id),
            ("outcome", report.word),
            ("code", report.code),
            ("detail", report.detail),
            ("result", report.result),
            ("retry_in_ms", to_milliseconds(report.delay)),
        ]
    )


def _lease(answer: str) -> Lease:
    body = members(answer)
    fence = int(body["fence"])
    deliveries = []
    for text in elements(body["messages"]):
        message = members(text)
        known = {name: json.loads(message[name]) for name in _DELIVERY if name in message}
        created_at = _time(json.loads(message["created_at"]))
        delivery = Delivery(text=message["payload"], created_at=created_at, fence=fence, **known)
        deliveries.append(delivery)
    expires_in = timedelta(milliseconds=int(body["expires_in_ms"]))
    return Lease(json.loads(body["token"]), fence, expires_in, deliveries)


def _time(text: str) -> datetime:
    # Before Python 3.11, `fromisoformat` reads neither Z nor other than 3 or 6 digits.
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")
