"""Text on the wire: JSON that stays exact, and arrays of PostgreSQL."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Dict, Iterable, List, Optional, Tuple

_DECODER = json.JSONDecoder()
_BLANKS = " \t\n\r"


class Raw(str):
    """JSON text that is sent as it is, for numbers that `float` would round."""


def to_json(value: Any) -> str:
    """JSON text of a value; `Raw` text as it is. NaN and infinity are rejected."""
    if isinstance(value, Raw):
        return str(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def to_array(items: Iterable[Optional[str]]) -> str:
    """The text of a PostgreSQL array, which every driver can send."""
    return "{" + ",".join(map(_element, items)) + "}"


def to_column(items: Iterable[Optional[str]]) -> Optional[str]:
    """The same, or None where every item is None: the functions then take their shorter way."""
    listed = list(items)
    return None if all(item is None for item in listed) else to_array(listed)


def _element(item: Optional[str]) -> str:
    if item is None:
        return "NULL"
    return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_interval(delay: Optional[timedelta]) -> Optional[str]:
    """The text of an interval."""
    if delay is None:
        return None
    return f"{delay // timedelta(microseconds=1)} us"


def to_milliseconds(delay: Optional[timedelta]) -> Optional[int]:
    """Whole milliseconds, as the HTTP API takes them."""
    return None if delay is None else delay // timedelta(milliseconds=1)


def to_time(at: Optional[datetime]) -> Optional[str]:
    """The text of an instant, which needs a time zone."""
    if at is None:
        return None
    if at.tzinfo is None:
        raise ValueError(f"`at` needs a time zone, {at.isoformat()} has none")
    return at.isoformat()


def members(text: str) -> Dict[str, str]:
    """The members of a JSON object by name, each as the text that stands there."""
    found: Dict[str, str] = {}
    for name_end, start, end in _parts(text, "{"):
        name, _ = _DECODER.raw_decode(text, name_end)
        found[name] = text[start:end]
    return found


def elements(text: str) -> List[str]:
    """The elements of a JSON array, each as the text that stands there."""
    return [text[start:end] for _, start, end in _parts(text, "[")]


def _parts(text: str, bracket: str) -> Iterable[Tuple[int, int, int]]:
    at = _skip(text, 0)
    if text[at] != bracket:
        raise ValueError(f"not a JSON document that begins with {bracket}")
    close = "}" if bracket == "{" else "]"
    at = _skip(text, at + 1)
    while text[at] != close:
        name_at = at
        if bracket == "{":
            _, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield name_at, at, end
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at


def document(fields: Iterable[Tuple[str, Any]]) -> str:
    """A JSON object of the fields that are not None."""
    parts = (f"{json.dumps(name)}:{to_json(value)}" for name, value in fields if value is not None)
    return "{" + ",".join(parts) + "}"
