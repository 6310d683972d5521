"""The errors of consign, by the codes of docs/errors.md."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional, Type


class ConsignError(Exception):
    """A call that consign rejected, or whose outcome is unknown.

    `code` is stable; the text may change. `detail` has the values that the error names.
    `outcome` is `"not_done"` or `"unknown"`: after `"unknown"` repeat the call with the same key
    or token.
    """

    code = "error"

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        detail: Optional[Mapping[str, Any]] = None,
        outcome: str = "not_done",
        status: Optional[int] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.detail: Dict[str, Any] = dict(detail or {})
        self.outcome = outcome
        self.status = status
        self.retry_after = retry_after


class UnknownQueue(ConsignError):
    """The queue does not exist."""

    code = "unknown_queue"


class KeyConflict(ConsignError):
    """The key names a message with another payload or group. Nothing was enqueued."""

    code = "key_conflict"


class LeaseLost(ConsignError):
    """The lease expired or the token is unknown. Stop working on its messages."""

    code = "lease_lost"


class NotInLease(ConsignError):
    """The lease does not hold these messages. Nothing was written."""

    code = "not_in_lease"


class PayloadTooLarge(ConsignError):
    """The payload is larger than the queue's `payload_max_bytes`."""

    code = "payload_too_large"


class InvalidInput(ConsignError):
    """An argument cannot be accepted; the text names it."""

    code = "invalid_input"


class Forbidden(ConsignError):
    """The login or the token may not do this."""

    code = "forbidden"


class Unavailable(ConsignError):
    """The server or its database cannot answer now; `outcome` shows whether it may have happened."""

    code = "unavailable"


# SQLSTATE, code and class. The codes are those of the HTTP API.
_SQLSTATES: Dict[str, Type[ConsignError]] = {
    "CN001": UnknownQueue,
    "CN002": KeyConflict,
    "CN003": LeaseLost,
    "CN004": NotInLease,
    "CN005": PayloadTooLarge,
    "CN006": InvalidInput,
}

_CODES: Dict[str, Type[ConsignError]] = {
    **{kind.code: kind for kind in _SQLSTATES.values()},
    "unauthorized": Forbidden,
    "scope_missing": Forbidden,
    "not_local": Forbidden,
    "tenant_bound": Forbidden,
    "forbidden": Forbidden,
    "rate_limited": Unavailable,
    "overloaded": Unavailable,
    "locked": Unavailable,
    "database_unavailable": Unavailable,
    "schema_mismatch": Unavailable,
    "request_timeout": Unavailable,
    "body_timeout": Unavailable,
}


def _attribute(error: BaseException, *names: str) -> Optional[str]:
    """The first of these attributes that the error, or what it wraps, has."""
    seen: Optional[BaseException] = error
    while seen is not None:
        for name in names:
            value = getattr(seen, name, None)
            if value is None and name.startswith("message_"):
                value = getattr(getattr(seen, "diag", None), name, None)
            if isinstance(value, str):
                return value
        orig = getattr(seen, "orig", None)
        seen = orig if isinstance(orig, BaseException) else seen.__cause__
    return None


def sqlstate_of(error: BaseException) -> Optional[str]:
    """The SQLSTATE of a driver's error, also where SQLAlchemy or Django wraps it."""
    return _attribute(error, "sqlstate", "pgcode")


def from_driver(error: BaseException) -> Optional[ConsignError]:
    """The error of consign that a driver's error carries, if it carries one."""
    kind = _SQLSTATES.get(sqlstate_of(error) or "")
    if kind is None:
        return None
    text = _attribute(error, "message_primary", "message") or str(error)
    detail = _attribute(error, "message_detail", "detail")
    try:
        values = json.loads(detail) if detail else {}
    except ValueError:
        values = {}
    return kind(text, detail=values if isinstance(values, dict) else {})


def from_problem(
    status: int, problem: Mapping[str, Any], retry_after: Optional[float]
) -> ConsignError:
    """The error of an answer of the HTTP API."""
    code = str(problem.get("code") or f"http_{status}")
    known = ("type", "title", "status", "detail", "code", "outcome")
    values = {name: value for name, value in problem.items() if name not in known}
    kind = _CODES.get(code, Unavailable if status >= 500 else ConsignError)
    outcome = problem.get("outcome", "unknown" if status >= 500 and code.startswith("http_") else "not_done")
    return kind(
        str(problem.get("detail") or problem.get("title") or f"HTTP status {status}"),
        code=code,
        detail=values,
        outcome=str(outcome),
        status=status,
        retry_after=retry_after,
    )
