#!/usr/bin/env python3
"""A broker for consign's http adapter, as small as the contract in docs/broker.md allows.

    BROKER_API_KEY=tulip BROKER_API_SECRET=rose python3 broker.py 8089

It fills every order at once, keeps its books in memory, and executes a key once.
Replace `execute` by a call to the real broker, and the books by a table.
"""

import hashlib, hmac, json, os, re, sys, threading, time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

API_KEY, API_SECRET = os.environ.get("BROKER_API_KEY"), os.environ.get("BROKER_API_SECRET")
SKEW_MS = 300_000
BOOKS, NONCES, LOCK = {}, set(), threading.Lock()


def load(text):
    """JSON with numbers as the text they are: amounts do not pass through floating point."""
    return json.loads(text, parse_float=lambda number: f"@{number}@", parse_int=lambda number: f"@{number}@")


def dump(value):
    return re.sub(r'"@([-+.0-9eE]+)@"', r"\1", json.dumps(value))


def execute(order):
    """An ExecResult. Everything it needs of the order goes back as it came."""
    now = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    price = order["price"] or "@146.125@"
    echoed = {name: order[name] for name in ("order_id", "instrument", "side", "requested_at", "trace_id")}
    return echoed | {
        "status": "ok", "completed_at": now, "executed_qty": order["qty"], "avg_price": price,
        "fills": [{"px": price, "qty": order["qty"], "ts": now}],
        "broker": {"name": "example", "order_ref": f"B-{len(BOOKS) + 1}"},
    }


class Broker(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if not self.is_ours(body):
            return
        order, key = load(body), unquote(self.headers["Idempotency-Key"])
        with LOCK:  # of two sends of a key that come at once, one executes
            if key not in BOOKS and order["side"] == "SELL" and not order["price"]:
                return self.answer(400, {"error": "BROKER_REJECTED", "message": "sells need a limit here"})
            if key not in BOOKS:
                BOOKS[key] = execute(order)
        self.answer(200, BOOKS[key])

    def do_GET(self):
        if not self.is_ours(""):
            return
        result = BOOKS.get(unquote(urlsplit(self.path).path.rsplit("/", 1)[1]))
        self.answer(200, result) if result else self.answer(404, {"error": "ORDER_UNKNOWN"})

    def is_ours(self, body):
        """Whether consign sent it: else it is answered 401."""
        credential = self.headers.get("Authorization", "")
        if API_KEY and not hmac.compare_digest(credential, f"Bearer {API_KEY}"):
            return self.answer(401, {"error": "BROKER_UNAUTHORIZED", "message": "wrong key"})
        if API_SECRET and not self.is_signed(body):
            return self.answer(401, {"error": "BROKER_UNAUTHORIZED", "message": "wrong signature"})
        return True

    def is_signed(self, body):
        at, nonce = self.headers.get("X-Timestamp", "0"), self.headers.get("X-Nonce", "")
        url = urlsplit(self.path)
        base = "|".join([self.command, url.path, url.query, body, at, nonce])
        expected = hmac.new(API_SECRET.encode(), base.encode(), hashlib.sha256).hexdigest()
        is_fresh = abs(time.time() * 1000 - int(at)) < SKEW_MS and nonce not in NONCES
        NONCES.add(nonce)
        return is_fresh and hmac.compare_digest(expected, self.headers.get("X-Signature", ""))

    def answer(self, status, value):
        body = dump(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Broker)
print(f"http://127.0.0.1:{server.server_port}/orders", flush=True)
server.serve_forever()
