"""For tests of programs that enqueue."""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Optional

from . import calls
from .drivers import run

_ANY = object()


def enqueued(db: Any, queue: str, key: Optional[str] = None) -> List[Mapping[str, Any]]:
    """The messages of a queue that this transaction sees, oldest first. Needs a reading role."""
    return [
        {
            "id": int(id),
            "key": key_,
            "group": group,
            "payload": json.loads(payload),
            "headers": json.loads(headers),
        }
        for id, key_, group, payload, headers in run(db, *calls.find(queue, key))
    ]


def assert_enqueued(
    db: Any,
    queue: str,
    payload: Any = _ANY,
    *,
    key: Optional[str] = None,
    group: Any = _ANY,
    headers: Any = _ANY,
    count: int = 1,
) -> List[Mapping[str, Any]]:
    """Asserts that `count` messages like this were enqueued, and returns them.

    Objects may have more members than the expected ones. Uncommitted messages of this
    transaction count, those of others do not.
    """
    found = enqueued(db, queue)
    wanted = {"payload": payload, "group": group, "headers": headers}
    if key is not None:
        wanted["key"] = key
    wanted = {name: value for name, value in wanted.items() if value is not _ANY}
    matching = [
        each for each in found if all(_contains(each[name], wanted[name]) for name in wanted)
    ]
    if len(matching) != count:
        lines = "\n".join(f"  {each}" for each in found[-20:]) or "  nothing"
        raise AssertionError(
            f"{len(matching)} messages in queue {queue} are like {wanted}, expected {count}; "
            f"the queue has\n{lines}"
        )
    return matching


def _contains(value: Any, expected: Any) -> bool:
    if isinstance(expected, Mapping) and isinstance(value, Mapping):
        return all(name in value and _contains(value[name], expected[name]) for name in expected)
    return bool(value == expected)
