"""Measures every driver beside pure SQL with the same driver, and prints rows of a table.

    scripts/clients bench [messages]

Pure SQL is the shortest loop that a program would write without the client: the same functions of
schema `consign` with the driver's own arrays. Both run in turns in one process. A figure is that of
the best round, which other work on the machine disturbed least, in messages per second.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, List, NamedTuple, Optional

import asyncpg
import psycopg
import psycopg2
import sqlalchemy
from conftest import POSTGRES, consign, serve

import consign_client
from consign_client import aio

BATCH = 100
# Of one round; a tenth of it is enqueued one by one.
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
ONE_BY_ONE = COUNT // 10
assert ONE_BY_ONE % BATCH == 0, "the number of messages is a multiple of 1,000"
ROUNDS = 9
PAYLOAD = {"to": "ada", "order": 17, "text": "x" * 150}

Step = Callable[[], Awaitable[Any]]


class Driver(NamedTuple):
    """One way to do it. `work` claims and settles one batch, and returns whether there was one."""

    one: Step
    many: Step
    work: Step


async def _rate(step: Step, times: int, messages: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await step()
    return messages / (time.perf_counter() - began)


async def measure(name: str, own: Driver, pure: Optional[Driver]) -> None:
    """Prints the three rows of a driver."""
    kinds = [("client", own)] + ([] if pure is None else [("pure", pure)])
    rates: Dict[str, Dict[str, List[float]]] = {}
    for _ in range(ROUNDS):
        for kind, driver in kinds:
            total = ONE_BY_ONE + COUNT
            steps = [
                ("enqueue one by one", driver.one, ONE_BY_ONE, ONE_BY_ONE),
                (f"enqueue {BATCH} at once", driver.many, COUNT // BATCH, COUNT),
                (f"claim and settle {BATCH} at once", driver.work, total // BATCH, total),
            ]
            for what, step, times, messages in steps:
                rate = await _rate(step, times, messages)
                rates.setdefault(what, {}).setdefault(kind, []).append(rate)
            assert not await driver.work(), "the queue is empty after each round"
    for what, found in rates.items():
        mine = max(found["client"])
        row = f"| Python, {name} | {what} | {mine:,.0f} |"
        if pure is None:
            print(row, "– | – |", flush=True)
        else:
            other = max(found["pure"])
            print(row, f"{other:,.0f} | {mine / other:.2f} |", flush=True)


def own_sync(begin: Callable[[], Any], commit: Callable[[], None]) -> Driver:
    """The client on a connection or session."""

    async def one() -> None:
        consign_client.enqueue(begin(), "default", PAYLOAD)
        commit()

    async def many() -> None:
        consign_client.enqueue_many(begin(), "default", [PAYLOAD] * BATCH)
        commit()

    async def work() -> bool:
        lease = consign_client.claim(begin(), "default", "bench", BATCH)
        commit()
        if lease is None:
            return False
        reports = [consign_client.Report(each.id) for each in lease.deliveries if each.payload]
        consign_client.settle(begin(), lease.token, reports)
        commit()
        return True

    return Driver(one, many, work)


ENQUEUE = "SELECT consign.enqueue('default', {0})"
ENQUEUE_MANY = "SELECT id FROM consign.enqueue_many('default', {0}::text[]::jsonb[])"
CLAIM = f"SELECT token::text, id, payload::text FROM consign.claim('default', 'bench', {BATCH})"
SETTLE = "SELECT id FROM consign.settle({0}::uuid, {1}::bigint[])"


def pure_sync(query: Callable[..., List[Any]], commit: Callable[[], None]) -> Driver:
    """What a program writes by hand; `query` takes a statement and parameters."""

    async def one() -> None:
        query(ENQUEUE, json.dumps(PAYLOAD))
        commit()

    async def many() -> None:
        query(ENQUEUE_MANY, [json.dumps(PAYLOAD) for _ in range(BATCH)])
        commit()

    async def work() -> bool:
        rows = query(CLAIM)
        commit()
        if not rows:
            return False
        query(SETTLE, rows[0][0], [row[1] for row in rows if json.loads(row[2])])
        commit()
        return True

    return Driver(one, many, work)


async def measure_percent(name: str, db: Any) -> None:
    def query(statement: str, *parameters: Any) -> List[Any]:
        with db.cursor() as cursor:
            cursor.execute(statement.format("%s", "%s"), parameters)
            return list(cursor.fetchall())

    await measure(name, own_sync(lambda: db, db.commit), pure_sync(query, db.commit))
    db.close()


async def measure_sqlalchemy(url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgres:", "postgresql+psycopg:"))
    with engine.connect() as db:

        def query(statement: str, *parameters: Any) -> List[Any]:
            return list(db.exec_driver_sql(statement.format("%s", "%s"), parameters))

        pure = pure_sync(query, db.commit)
        await measure("SQLAlchemy", own_sync(lambda: db, db.commit), pure)


async def measure_asyncpg(url: str) -> None:
    db = await asyncpg.connect(url)

    async def one() -> None:
        await aio.enqueue(db, "default", PAYLOAD)

    async def many() -> None:
        await aio.enqueue_many(db, "default", [PAYLOAD] * BATCH)

    async def work() -> bool:
        lease = await aio.claim(db, "default", "bench", BATCH)
        if lease is None:
            return False
        reports = [consign_client.Report(each.id) for each in lease.deliveries if each.payload]
        await aio.settle(db, lease.token, reports)
        return True

    async def pure_one() -> None:
        await db.fetch(ENQUEUE.format("$1"), json.dumps(PAYLOAD))

    async def pure_many() -> None:
        await db.fetch(ENQUEUE_MANY.format("$1"), [json.dumps(PAYLOAD) for _ in range(BATCH)])

    async def pure_work() -> bool:
        rows = await db.fetch(CLAIM)
        if rows:
            ids = [row[1] for row in rows if json.loads(row[2])]
            await db.fetch(SETTLE.format("$1", "$2"), rows[0][0], ids)
        return bool(rows)

    await measure("asyncpg", Driver(one, many, work), Driver(pure_one, pure_many, pure_work))
    await db.close()


async def measure_http(url: str) -> None:
    client = consign_client.HttpClient(url)

    async def one() -> None:
        client.enqueue("default", PAYLOAD)

    async def many() -> None:
        client.enqueue_many("default", [PAYLOAD] * BATCH)

    async def work() -> bool:
        lease = client.claim("default", "bench", BATCH)
        if lease is None:
            return False
        reports = [consign_client.Report(each.id) for each in lease.deliveries if each.payload]
        client.settle(lease.token, reports)
        return True

    await measure("HTTP", Driver(one, many, work), None)


async def main() -> None:
    name = f"consign_bench_{uuid.uuid4().hex[:8]}"
    url = POSTGRES.rsplit("/", 1)[0] + "/" + name
    with psycopg.connect(POSTGRES, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        consign(url, "migrate")
        version = server.execute("SHOW server_version").fetchone()
        print(f"{COUNT} messages, {ROUNDS} rounds, PostgreSQL {(version or [''])[0].split()[0]},", end=" ")
        print(f"Python {sys.version.split()[0]}, {os.cpu_count()} processors\n")
        print("| client | what | messages/s | pure SQL | ratio |")
        print("|---|---|---:|---:|---:|", flush=True)
        await measure_percent("psycopg 3", psycopg.connect(url))
        await measure_percent("psycopg2", psycopg2.connect(url))
        await measure_sqlalchemy(url)
        await measure_asyncpg(url)
        with tempfile.TemporaryDirectory() as folder, serve(url, Path(folder)) as address:
            await measure_http(address)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


asyncio.run(main())
