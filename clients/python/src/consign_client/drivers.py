"""One way to run a statement, whatever the driver. The caller's transaction is never ended."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, List, Optional, Sequence, Tuple

from .errors import from_driver

Row = Tuple[Any, ...]
Parameters = Sequence[Optional[str]]

_PLACE = re.compile(r"\$(\d+)")


@lru_cache(maxsize=None)
def _percent(statement: str) -> str:
    return _PLACE.sub("%s", statement)


@lru_cache(maxsize=None)
def _named(statement: str) -> Any:
    from sqlalchemy import text

    return text(_PLACE.sub(r":p\1", statement))


def _names(parameters: Parameters) -> dict[str, Optional[str]]:
    return {f"p{number}": value for number, value in enumerate(parameters, 1)}


_LIBRARIES = ("psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django")


def _library(db: Any) -> str:
    """The library that the class of a connection, or one that it extends, comes from."""
    kind = type(db)
    for base in kind.__mro__:
        name = base.__module__.split(".")[0]
        if name in _LIBRARIES:
            return name
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} is no connection of psycopg, psycopg2, asyncpg, "
        "SQLAlchemy or Django"
    )


def run(db: Any, statement: str, parameters: Parameters = ()) -> List[Row]:
    """Runs a statement on a connection, session or Django connection, and returns its rows."""
    library = _library(db)
    try:
        if library == "sqlalchemy":
            return [tuple(row) for row in db.execute(_named(statement), _names(parameters))]
        with _cursor(library, db) as cursor:
            cursor.execute(_percent(statement), list(parameters) or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    except Exception as error:
        known = from_driver(error)
        if known is None:
            raise
        raise known from error


def _cursor(library: str, db: Any) -> Any:
    """A cursor with rows as tuples, whatever the connection makes of rows."""
    if library == "psycopg":
        from psycopg.rows import tuple_row

        return db.cursor(row_factory=tuple_row)
    if library == "psycopg2":
        from psycopg2.extensions import cursor

        return db.cursor(cursor_factory=cursor)
    if library == "django":
        return db.cursor()
    raise TypeError("a connection of asyncpg needs consign_client.aio")


async def run_async(db: Any, statement: str, parameters: Parameters = ()) -> List[Row]:
    """The same on an asynchronous connection or session."""
    library = _library(db)
    try:
        if library == "asyncpg":
            return [tuple(row) for row in await db.fetch(statement, *parameters)]
        if library == "sqlalchemy":
            result = await db.execute(_named(statement), _names(parameters))
            return [tuple(row) for row in result]
        async with _cursor(library, db) as cursor:
            await cursor.execute(_percent(statement), list(parameters) or None)
            return [tuple(row) for row in await cursor.fetchall()] if cursor.description else []
    except Exception as error:
        known = from_driver(error)
        if known is None:
            raise
        raise known from error
