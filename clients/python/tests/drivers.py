"""Every driver behind one face: open a transaction, then commit or roll it back."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Iterator
from urllib.parse import urlsplit

import psycopg
import psycopg2
import sqlalchemy
import sqlalchemy.orm

Begin = Callable[[str], Any]


class Cancelled(Exception):
    """Rolls a transaction back."""


@contextmanager
def with_psycopg(url: str) -> Iterator[Any]:
    # Rows as dicts, as some programs have them.
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as db:
        yield db


@contextmanager
def with_psycopg2(url: str) -> Iterator[Any]:
    db = psycopg2.connect(url)
    try:
        with db:
            yield db
    finally:
        db.close()


@contextmanager
def with_connection(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgres:", "postgresql+psycopg:"))
    with engine.begin() as db:
        yield db
    engine.dispose()


@contextmanager
def with_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgres:", "postgresql+psycopg2:"))
    with sqlalchemy.orm.Session(engine) as session, session.begin():
        yield session
    engine.dispose()


@contextmanager
def with_django(url: str) -> Iterator[Any]:
    import django
    from django.conf import settings
    from django.db import connections, transaction

    parts = urlsplit(url)
    if not settings.configured:
        settings.configure(DATABASES={"default": {}})
        django.setup()
    alias = parts.path[1:]
    connections.databases[alias] = {
        **connections.databases["default"],
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }
    try:
        with transaction.atomic(using=alias):
            yield connections[alias]
    finally:
        connections[alias].close()


SYNC = [with_psycopg, with_psycopg2, with_connection, with_session, with_django]
