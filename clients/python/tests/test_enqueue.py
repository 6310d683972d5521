"""Enqueueing in the caller's transaction, with every driver."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import asyncpg
import psycopg
import pytest
from conftest import states
from drivers import SYNC, Begin, Cancelled
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

import consign_client as consign
from consign_client import aio
from consign_client.testing import assert_enqueued, enqueued

EXACT = '{"d":0.12345678901234567890,"n":12345678901234567890123}'

every_driver = pytest.mark.parametrize("begin", SYNC, ids=lambda each: each.__name__[5:])


@every_driver
def test_enqueues_with_the_transaction_or_not_at_all(database: str, begin: Begin) -> None:
    with pytest.raises(Cancelled), begin(database) as db:
        consign.enqueue(db, "default", {"to": "ada"})
        assert len(enqueued(db, "default")) == 1
        raise Cancelled
    assert states(database) == {}
    with begin(database) as db:
        id = consign.enqueue(db, "default", {"to": "ada"}, key="k%s:1", headers={"kind": "mail"})
        again = consign.enqueue(db, "default", {"to": "ada"}, key="k%s:1")
        assert id == again
    assert states(database) == {"ready": 1}


@every_driver
def test_enqueues_in_bulk(database: str, begin: Begin) -> None:
    texts = ["plain", 'quo"te', "back\\slash", "NULL", "", "{a,b}", "Grüße %s :name $1", "line\nend"]
    with begin(database) as db:
        many = [consign.Message({"text": text}, key=text + "!", group=text + "?") for text in texts]
        done = consign.enqueue_many(db, "default", many)
        assert [each.duplicate for each in done] == [False] * len(texts)
        assert consign.enqueue_many(db, "default", many)[0] == consign.Enqueued(
            done[0].id, True, "ready"
        )
        assert [each["payload"]["text"] for each in enqueued(db, "default")] == texts
        assert [each["key"][:-1] for each in enqueued(db, "default")] == texts
        assert [each["group"][:-1] for each in enqueued(db, "default")] == texts
        assert consign.enqueue_many(db, "default", []) == []


@every_driver
def test_enqueues_for_several_queues_and_times(database: str, begin: Begin) -> None:
    with psycopg.connect(database) as db:
        db.execute("SELECT consign.put_queue('mail', '{}', 'test', 'test')")
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    with begin(database) as db:
        mixed = consign.enqueue_mixed(
            db,
            [
                consign.Message(1, queue="mail", delay=timedelta(minutes=5)),
                consign.Message(2, queue="default"),
                consign.Message(None, queue="mail", at=later),
            ],
        )
    assert [each.state for each in mixed] == ["ready"] * 3
    with psycopg.connect(database) as db:
        assert consign.claim(db, "mail", "test") is None
        lease = consign.claim(db, "default", "test")
        assert lease is not None and lease.deliveries[0].id == mixed[1].id


@every_driver
def test_payloads_stay_exact(database: str, begin: Begin) -> None:
    with begin(database) as db:
        consign.enqueue(db, "default", consign.Raw(EXACT))
        lease = consign.claim(db, "default", "test")
        assert lease is not None
        delivery = lease.deliveries[0]
        assert delivery.text.replace(" ", "") == EXACT
        assert str(delivery.exact_payload["d"]) == "0.12345678901234567890"
        assert delivery.payload["n"] == 12345678901234567890123


@every_driver
def test_rejections_are_typed(database: str, begin: Begin) -> None:
    with pytest.raises(consign.UnknownQueue) as unknown, begin(database) as db:
        consign.enqueue(db, "nope", 1)
    assert unknown.value.code == "unknown_queue" and unknown.value.detail == {"queue": "nope"}
    with begin(database) as db:
        id = consign.enqueue(db, "default", 1, key="k")
    with pytest.raises(consign.KeyConflict) as conflict, begin(database) as db:
        consign.enqueue(db, "default", 2, key="k")
    assert conflict.value.detail == {"queue": "default", "key": "k", "id": id}
    with pytest.raises(consign.InvalidInput), begin(database) as db:
        now = datetime.now(timezone.utc)
        consign.enqueue(db, "default", 1, delay=timedelta(seconds=1), at=now)
    with pytest.raises(consign.LeaseLost), begin(database) as db:
        consign.settle(db, "00000000-0000-0000-0000-000000000000", [consign.Report(id)])
    with begin(database) as db:
        lease = consign.claim(db, "default", "test")
        assert lease is not None
    with pytest.raises(consign.NotInLease) as not_in, begin(database) as db:
        consign.settle(db, lease.token, [consign.Report(id + 1)])
    assert not_in.value.detail == {"ids": [id + 1]}


def test_a_foreign_object_is_rejected() -> None:
    with pytest.raises(TypeError, match="no connection of psycopg"):
        consign.enqueue(object(), "default", 1)


def test_a_time_without_a_zone_is_rejected(database: str) -> None:
    with psycopg.connect(database) as db, pytest.raises(ValueError, match="needs a time zone"):
        consign.enqueue(db, "default", 1, at=datetime(2030, 1, 1))


def test_asserts_about_what_was_enqueued(database: str) -> None:
    with psycopg.connect(database) as db:
        consign.enqueue(db, "default", {"to": "ada", "n": 1}, key="k", headers={"kind": "mail"})
        assert_enqueued(db, "default", {"to": "ada"}, key="k", headers={"kind": "mail"})
        assert_enqueued(db, "default", {"to": "bob"}, count=0)
        with pytest.raises(AssertionError, match="0 messages in queue default are like"):
            assert_enqueued(db, "default", {"to": "bob"})


async def _walk(db: Any) -> None:
    id = await aio.enqueue(db, "default", consign.Raw(EXACT), key="k%s:1")
    many = await aio.enqueue_many(db, "default", [1, consign.Message(2, key='a"b')])
    mixed = await aio.enqueue_mixed(db, [consign.Message(3, delay=timedelta(hours=1))])
    assert [each.id for each in many + mixed] == [id + 1, id + 2, id + 3]
    lease = await aio.claim(db, "default", "test", 10, timedelta(seconds=30))
    assert lease is not None
    assert [each.id for each in lease.deliveries] == [id, id + 1, id + 2]
    assert lease.deliveries[0].text.replace(" ", "") == EXACT
    await aio.renew(db, lease.token, timedelta(seconds=60))
    await aio.begin(db, lease.token, [id])
    reports = [consign.Report(id), consign.Report(id + 1, consign.Dead("gone", 'a "b"'))]
    recorded = await aio.settle(db, lease.token, reports)
    assert [each.outcome for each in recorded] == ["delivered", "dead"]
    assert await aio.release(db, lease.token) == [id + 2]


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "connection", "session"])
def test_asynchronous_drivers(database: str, driver: str) -> None:
    async def through() -> None:
        if driver == "asyncpg":
            db = await asyncpg.connect(database)
            async with db.transaction():
                await _walk(db)
            with pytest.raises(consign.UnknownQueue):
                await aio.enqueue(db, "nope", 1)
            await db.close()
        elif driver == "psycopg":
            async with await psycopg.AsyncConnection.connect(database) as db:
                await _walk(db)
        elif driver == "connection":
            engine = create_async_engine(database.replace("postgres:", "postgresql+asyncpg:"))
            async with engine.begin() as db:
                await _walk(db)
            with pytest.raises(consign.UnknownQueue):
                async with engine.begin() as db:
                    await aio.enqueue(db, "nope", 1)
            await engine.dispose()
        else:
            engine = create_async_engine(database.replace("postgres:", "postgresql+asyncpg:"))
            async with AsyncSession(engine) as session, session.begin():
                await _walk(session)
            await engine.dispose()

    asyncio.run(through())
    assert states(database) == {"delivered": 1, "dead": 1, "ready": 2}
