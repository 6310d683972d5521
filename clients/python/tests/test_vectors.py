"""clients/vectors.json: what the Rust tests, this client and the one for TypeScript share."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, Dict, Iterator, List, Optional

import psycopg
import pytest
from drivers import with_psycopg, with_psycopg2

import consign_client as consign
from consign_client import encoding, errors, sql, statements
from consign_client.receiver import Receipt, Rejected, Verifier, Webhook, create_table, record

with open(os.environ["CONSIGN_TEST_VECTORS"], encoding="utf-8") as file:
    VECTORS: Dict[str, Any] = json.load(file)


def _named(vectors: List[Dict[str, Any]]) -> Any:
    return pytest.mark.parametrize("vector", vectors, ids=[each["name"] for each in vectors])


def _ms(value: Optional[int]) -> Optional[timedelta]:
    return None if value is None else timedelta(milliseconds=value)


def _message(given: Dict[str, Any]) -> consign.Message:
    return consign.Message(
        consign.Raw(given["payload"]),
        given.get("key"),
        given.get("group"),
        given.get("headers"),
        given.get("queue", "default"),
        _ms(given.get("delay_ms")),
        datetime.fromisoformat(given["at"]) if "at" in given else None,
    )


def _report(given: Dict[str, Any]) -> consign.Report:
    outcomes: Dict[str, consign.Outcome] = {
        "delivered": consign.Delivered(given.get("result")),
        "retry": consign.Retry(given.get("code"), given.get("detail"), _ms(given.get("delay_ms"))),
        "dead": consign.Dead(given.get("code"), given.get("detail")),
    }
    return consign.Report(given["id"], outcomes[given["outcome"]])


def perform(client: Any, call: List[Any]) -> Any:
    """Makes the call and returns its result in the form of the vectors."""
    operation, given = call
    if operation == "enqueue":
        one = _message(given)
        options = {name: getattr(one, name) for name in ("key", "group", "headers", "delay", "at")}
        return client.enqueue(given["queue"], one.payload, **options)
    if operation == "enqueue_many":
        many = map(_message, given["messages"])
        return [vars(each) for each in client.enqueue_many(given["queue"], many)]
    if operation == "enqueue_mixed":
        return [vars(each) for each in client.enqueue_mixed(map(_message, given["messages"]))]
    if operation == "claim":
        lease = client.claim(
            given["queue"], given["owner"], given["limit"], _ms(given.get("lease_ms"))
        )
        return None if lease is None else _claimed(lease)
    if operation == "renew":
        return client.renew(given["token"], _ms(given["lease_ms"]))
    if operation == "begin":
        return client.begin(given["token"], given["ids"])
    if operation == "settle":
        reports = list(map(_report, given["reports"]))
        return [vars(each) for each in client.settle(given["token"], reports)]
    return client.release(given["token"])


def _claimed(lease: consign.Lease) -> Dict[str, Any]:
    names = ("id", "queue", "key", "group", "text", "headers")
    names += ("attempt_no", "tries", "in_doubt", "fence")
    return {
        "token": lease.token,
        "fence": lease.fence,
        "expires_in_ms": lease.expires_in // timedelta(milliseconds=1),
        "deliveries": [{name: getattr(each, name) for name in names} for each in lease.deliveries],
    }


def _alike(value: Any) -> str:
    # PostgreSQL prints documents with blanks, the HTTP API without.
    return json.dumps(value, sort_keys=True).replace(" ", "")


def _check(client: Any, vector: Dict[str, Any]) -> None:
    if "error" in vector:
        with pytest.raises(consign.ConsignError) as caught:
            perform(client, vector["call"])
        assert caught.value.code == vector["error"]
        assert type(caught.value) is not consign.ConsignError
    else:
        assert _alike(perform(client, vector["call"])) == _alike(vector["result"])


class _Rejection(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@_named(VECTORS["calls"])
def test_sql_calls(vector: Dict[str, Any], monkeypatch: Any) -> None:
    expected = vector["sql"]

    def run(_: Any, statement: str, parameters: Any) -> Any:
        assert statement == VECTORS["statements"][expected["statement"]]
        assert list(parameters) == expected["parameters"]
        if "error" in expected:
            error = errors.from_driver(_Rejection(expected["error"]["sqlstate"]))
            assert error is not None
            raise error
        return [tuple(row.values()) for row in expected["rows"]]

    class Client:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **options: getattr(sql, name)(None, *args, **options)

    monkeypatch.setattr(sql, "run", run)
    _check(Client(), vector)


@pytest.fixture(scope="module")
def recorded() -> Iterator[Any]:
    """A server that gives the answer it was given, and keeps the request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            server.request = (self.path, body.decode(), self.headers["content-type"])
            status, answer = server.answer
            self.send_response(status)
            self.send_header("content-length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server: Any = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


@_named(VECTORS["calls"])
def test_http_calls(vector: Dict[str, Any], recorded: Any) -> None:
    expected = vector["http"]
    recorded.answer = (expected["status"], expected["answer"])
    client = consign.HttpClient(f"http://127.0.0.1:{recorded.server_address[1]}")
    _check(client, vector)
    client.close()
    path, body, kind = recorded.request
    assert (path, body) == (expected["path"], expected["body"])
    assert kind == ("application/json" if body else None)


def test_statements() -> None:
    own = {name.lower() for name in vars(statements) if name.isupper() and name[0] != "_"}
    assert own == set(VECTORS["statements"])
    for name, text in VECTORS["statements"].items():
        assert getattr(statements, name.upper()) == text


def test_errors() -> None:
    for each in VECTORS["errors"]:
        of_sql = errors.from_driver(_Rejection(each["sqlstate"]))
        of_http = errors.from_problem(each["status"], {"code": each["code"]}, None)
        assert of_sql is not None and type(of_sql) is type(of_http)
        assert of_sql.code == of_http.code == each["code"]


@pytest.mark.parametrize("begin", [with_psycopg, with_psycopg2])
def test_arrays(database: str, begin: Any) -> None:
    for each in VECTORS["arrays"]:
        assert encoding.to_array(each["items"]) == each["text"]
    with psycopg.connect(database) as db:
        for each in VECTORS["arrays"]:
            row = db.execute("SELECT %s::text::text[]", [each["text"]]).fetchone()
            assert row == (each["items"],)


@_named(VECTORS["webhooks"])
def test_webhooks(vector: Dict[str, Any]) -> None:
    if any(key.startswith("whpk_") for key in vector["keys"]):
        with pytest.raises(ValueError, match="whsec_"):
            Verifier(vector["keys"])
        return
    verifier = Verifier(" ".join(vector["keys"]))
    headers = {name.title(): value for name, value in vector["headers"].items()}
    body = vector["body"].encode()
    if "rejected" in vector["expect"]:
        with pytest.raises(Rejected) as rejected:
            verifier.verify(headers, body, vector["now"])
        assert rejected.value.code == vector["expect"]["rejected"]
    else:
        webhook = vars(verifier.verify(headers, body, vector["now"]))
        assert webhook.pop("body") == body
        assert webhook == vector["expect"]


def test_bad_keys() -> None:
    for key in VECTORS["bad_keys"]:
        with pytest.raises(ValueError) as error:
            Verifier(key)
        assert not key or key not in str(error.value)


def test_idempotency_keys() -> None:
    for each in VECTORS["keys"]:
        delivery = consign.Delivery(
            each["id"], each["queue"], each["key"], None, "1", {}, datetime.now(), 1, 0, False, 1
        )
        assert delivery.idempotency_key == each["idempotency_key"]


@pytest.mark.parametrize("begin", [with_psycopg, with_psycopg2])
def test_receipts(database: str, begin: Any) -> None:
    for each in VECTORS["receipts"]:
        webhook = Webhook(each["id"], 0, None, None, each["fence"], b"")
        with begin(database) as db:
            create_table(db)
            assert record(db, webhook) is Receipt(each["receipt"])
