"""Workers over SQL and HTTP: outcomes, leases, stops and kills."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from datetime import timedelta
from typing import Any, List, Optional

import asyncpg
import psycopg
import psycopg2
import pytest
from conftest import DEADLINE_SECONDS, eventually, start_worker, states

import consign_client as consign
from consign_client import sql
from consign_client.async_worker import AsyncWorker

TRANSPORTS = ["psycopg", "psycopg2", "http"]
PROCESSES = ["sql", "http", "asyncio"]


def fill(database: str, count: int) -> List[int]:
    with psycopg.connect(database) as db:
        return [each.id for each in consign.enqueue_many(db, "default", range(count))]


def source_of(transport: str, request: Any) -> Any:
    if transport == "http":
        return consign.HttpClient(request.getfixturevalue("server"))
    database = request.getfixturevalue("database")
    connect = psycopg.connect if transport == "psycopg" else psycopg2.connect
    return consign.SqlSource(lambda: connect(database))


def result_of(database: str, id: int) -> Any:
    """Outcome, code, detail and result of the last attempt at a message."""
    with psycopg.connect(database) as db:
        query = (
            "SELECT outcome, code, detail, result FROM consign.attempt_view "
            "WHERE message_id = %s ORDER BY attempt_no DESC LIMIT 1"
        )
        return db.execute(query, [id]).fetchone()


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_reports_what_the_handler_returns(database: str, request: Any, transport: str) -> None:
    def handler(delivery: consign.Delivery) -> Optional[consign.Outcome]:
        outcomes = {
            1: consign.Delivered({"ok": True}),
            2: consign.Dead("gone", "no such address"),
            3: consign.Retry("busy", delay=timedelta(hours=1)),
            5: consign.Delivered(object()),
        }
        if delivery.payload == 4:
            raise RuntimeError("out of paper")
        assert delivery.attempt_no == 1 and delivery.fence > 0 and not delivery.in_doubt
        return outcomes.get(delivery.payload)

    ids = fill(database, 6)
    with psycopg.connect(database) as db:
        policy = '{"retry": {"kind": "fixed", "delay_ms": 3600000}}'
        db.execute("SELECT consign.put_queue('default', %s, 'test', 'test')", [policy])
    consign.Worker(source_of(transport, request), "default", handler).run(until_empty=True)
    assert states(database) == {"delivered": 2, "dead": 1, "ready": 3}
    assert result_of(database, ids[1]) == ("delivered", None, None, {"ok": True})
    assert result_of(database, ids[2])[:3] == ("dead", "gone", "no such address")
    assert result_of(database, ids[3])[:2] == ("retry", "busy")
    assert result_of(database, ids[4])[:3] == (
        "retry",
        "handler_failed",
        "RuntimeError: out of paper",
    )
    assert result_of(database, ids[5])[1] == "handler_failed"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_handlers_run_at_once_and_long_ones_keep_their_lease(
    database: str, request: Any, transport: str
) -> None:
    together = threading.Barrier(4, timeout=DEADLINE_SECONDS)

    def handler(delivery: consign.Delivery) -> None:
        together.wait()
        # Longer than the lease.
        time.sleep(4)
        assert not delivery.lease_lost

    fill(database, 4)
    worker = consign.Worker(
        source_of(transport, request),
        "default",
        handler,
        threads=4,
        lease=timedelta(seconds=2),
    )
    worker.run(until_empty=True)
    assert states(database) == {"delivered": 4}
    with psycopg.connect(database) as db:
        assert db.execute("SELECT count(*) FROM consign.attempt").fetchone() == (4,)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_commit_wakes_a_worker(database: str, request: Any, transport: str) -> None:
    got: List[int] = []
    worker = consign.Worker(
        source_of(transport, request), "default", lambda delivery: got.append(delivery.id)
    )
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        for _ in range(3):
            ids = fill(database, 1)
            eventually("the message is handled", lambda: got[-1:] == ids)
    finally:
        worker.stop()
        thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
    assert states(database) == {"delivered": 3}


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_lost_lease_is_noticed_and_its_result_is_kept_as_evidence(
    database: str, request: Any, transport: str
) -> None:
    def handler(delivery: consign.Delivery) -> None:
        with psycopg.connect(database) as db:
            token = db.execute("SELECT token::text FROM consign.lease").fetchone()
            assert token is not None
            db.execute("SELECT consign.terminate_lease(%s, 'test', 'test')", token)
        eventually("the loss is noticed", lambda: delivery.lease_lost)
        worker.stop()

    ids = fill(database, 2)
    worker = consign.Worker(
        source_of(transport, request), "default", handler, lease=timedelta(seconds=1)
    )
    worker.run()
    assert states(database) == {"ready": 2}
    with psycopg.connect(database) as db:
        late = db.execute("SELECT message_id, outcome FROM consign.late_view").fetchall()
    assert late == [(ids[0], "delivered")]


@pytest.mark.parametrize("transport", PROCESSES)
def test_sigterm_finishes_the_running_message_and_releases_the_rest(
    database: str, request: Any, transport: str
) -> None:
    address = request.getfixturevalue("server") if transport == "http" else database
    ids = fill(database, 5)
    worker = start_worker(transport, address, "slow")
    assert worker.stdout is not None
    assert worker.stdout.readline().split()[:2] == [str(ids[0]), "1"]
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(DEADLINE_SECONDS) == 0
    assert states(database) == {"delivered": 1, "ready": 4}
    with psycopg.connect(database) as db:
        assert db.execute("SELECT count(*) FROM consign.attempt").fetchone() == (1,)
        assert db.execute("SELECT count(*) FROM consign.lease").fetchone() == (0,)


@pytest.mark.parametrize("transport", PROCESSES)
def test_a_killed_workers_messages_come_back_and_its_late_settle_is_rejected(
    database: str, request: Any, transport: str
) -> None:
    address = request.getfixturevalue("server") if transport == "http" else database
    ids = fill(database, 3)
    killed = start_worker(transport, address, "hang")
    assert killed.stdout is not None
    id, attempt_no, fence = killed.stdout.readline().split()
    with psycopg.connect(database) as db:
        (token,) = db.execute("SELECT token::text FROM consign.lease").fetchone() or ("",)
    killed.send_signal(signal.SIGKILL)
    killed.wait(DEADLINE_SECONDS)
    second = start_worker(transport, address, "deliver")
    assert second.stdout is not None
    got = [second.stdout.readline().split() for _ in range(3)]
    assert sorted(int(line[0]) for line in got) == ids
    again = next(line for line in got if line[0] == id)
    assert int(again[1]) == int(attempt_no) + 1 and int(again[2]) > int(fence)
    client: Any = sql
    arguments: List[Any] = [token, [consign.Report(int(id))]]
    with psycopg.connect(database, autocommit=True) as db, pytest.raises(consign.LeaseLost):
        if transport == "http":
            client = consign.HttpClient(address)
        else:
            arguments.insert(0, db)
        client.settle(*arguments)
    second.send_signal(signal.SIGTERM)
    assert second.wait(DEADLINE_SECONDS) == 0
    assert states(database) == {"delivered": 3}


def test_a_worker_survives_its_connections(database: str) -> None:
    got: List[int] = []
    source = consign.SqlSource(lambda: psycopg.connect(database))
    worker = consign.Worker(source, "default", lambda delivery: got.append(delivery.id))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        first = fill(database, 1)
        eventually("the first is handled", lambda: got == first)
        with psycopg.connect(database, autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        second = fill(database, 1)
        eventually("the second is handled", lambda: got == first + second)
    finally:
        worker.stop()
        thread.join(DEADLINE_SECONDS)
    assert states(database) == {"delivered": 2}


def test_an_unknown_queue_ends_a_worker(database: str) -> None:
    source = consign.SqlSource(lambda: psycopg.connect(database))
    with pytest.raises(consign.UnknownQueue):
        consign.Worker(source, "nope", lambda delivery: None).run()


def test_the_asynchronous_worker_works_and_wakes(database: str) -> None:
    got: List[int] = []

    async def handler(delivery: consign.Delivery) -> Optional[consign.Outcome]:
        got.append(delivery.id)
        if delivery.payload == 1:
            raise RuntimeError("no")
        # Longer than its lease.
        await asyncio.sleep(3)
        return consign.Delivered([delivery.attempt_no])

    async def through() -> None:
        async with asyncpg.create_pool(database, min_size=1, max_size=4) as pool:
            lease = timedelta(seconds=2)
            worker = AsyncWorker(pool, "default", handler, lease=lease)
            task = asyncio.ensure_future(worker.run())
            await asyncio.sleep(0)
            ids = await asyncio.to_thread(fill, database, 2)
            done = {"delivered": 1, "ready": 1}
            await asyncio.to_thread(
                eventually, "both are settled", lambda: states(database) == done
            )
            assert sorted(got)[:2] == ids
            worker.stop()
            await task

    with psycopg.connect(database) as db:
        policy = '{"retry": {"kind": "fixed", "delay_ms": 3600000}}'
        db.execute("SELECT consign.put_queue('default', %s, 'test', 'test')", [policy])
    asyncio.run(through())
