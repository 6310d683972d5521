"""A receiver in its own transaction, behind the real http sink."""

from __future__ import annotations

import asyncio
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, List

import asyncpg
import psycopg
from conftest import eventually, serve, states

import consign_client as consign
from consign_client.receiver import (
    Receipt,
    Rejected,
    Verifier,
    Webhook,
    create_table,
    record,
    record_async,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_a_message_is_applied_once_although_its_first_answer_is_lost(
    database: str, tmp_path: Path
) -> None:
    receipts: List[str] = []
    verifier = Verifier(SECRET)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                webhook = verifier.verify(dict(self.headers.items()), body)
            except Rejected as error:
                receipts.append(error.code)
                self.send_error(401)
                return
            with psycopg.connect(database) as db:
                receipt = record(db, webhook)
                if receipt is Receipt.FIRST:
                    db.execute("INSERT INTO applied VALUES (%s)", [body.decode()])
            receipts.append(receipt.value)
            # The first answer gets lost on its way.
            self.send_response(500 if len(receipts) == 1 else 204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with psycopg.connect(database) as db:
        create_table(db)
        db.execute("CREATE TABLE applied (body text)")
        policy = '{"retry": {"kind": "fixed", "delay_ms": 1}}'
        db.execute("SELECT consign.put_queue('default', %s, 'test', 'test')", [policy])
        consign.enqueue(db, "default", consign.Raw('{"n":1.10}'), key="a.b")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    (tmp_path / "consign.toml").write_text(
        "[queues.default.sink]\nkind = 'http'\nallow = ['127.0.0.1']\n"
        f"url = 'http://127.0.0.1:{server.server_address[1]}'\nsigning_secret = '{SECRET}'\n"
    )
    with serve(database, tmp_path):
        eventually("it is delivered", lambda: states(database) == {"delivered": 1})
    server.shutdown()
    assert receipts == ["first", "repeated"]
    with psycopg.connect(database) as db:
        assert db.execute("SELECT body FROM applied").fetchall() == [('{"n":1.10}',)]


def test_of_two_requests_at_once_one_is_the_first(database: str) -> None:
    webhook = Webhook("orders:1", 0, 1, 1, 7, b"")
    with psycopg.connect(database) as db:
        create_table(db)
    got: List[Receipt] = []

    def second() -> None:
        with psycopg.connect(database) as db:
            got.append(record(db, webhook))

    with psycopg.connect(database) as db:
        assert record(db, webhook) is Receipt.FIRST
        thread = Thread(target=second)
        thread.start()
        with psycopg.connect(database) as other:
            eventually(
                "the second waits",
                lambda: other.execute(
                    "SELECT 1 FROM pg_locks WHERE NOT granted"
                ).fetchone(),
            )
        assert got == []
    thread.join()
    assert got == [Receipt.REPEATED]


def test_a_receiver_with_asyncpg(database: str) -> None:
    async def through() -> None:
        db = await asyncpg.connect(database)
        webhook = Webhook("orders:1", 0, 1, 1, 7, b"")
        older = Webhook("orders:1", 0, 1, 1, 6, b"")
        async with db.transaction():
            assert await record_async(db, webhook) is Receipt.FIRST
            assert await record_async(db, webhook) is Receipt.REPEATED
            assert await record_async(db, older) is Receipt.STALE
        await db.close()

    with psycopg.connect(database) as db:
        create_table(db)
    asyncio.run(through())
