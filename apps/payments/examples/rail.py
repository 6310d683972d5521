#!/usr/bin/env python3
"""A rail for consign's http rail, as small as the contract in docs/rail.md allows.

    RAIL_TOKEN=tulip RAIL_SIGNING_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw python3 rail.py 8090

It pays everything up to a limit, keeps its books in memory, and pays a reference once.
Replace `pay` by a call to the real rail, and the books by a table.
"""

import base64, hashlib, hmac, json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOKEN, SECRET = os.environ.get("RAIL_TOKEN"), os.environ.get("RAIL_SIGNING_SECRET", "")
SKEW_SECONDS = 300
PAYMENTS, FENCES, LOCK = {}, {}, threading.Lock()


def pay(payment):
    """The rail's reply to a payment: the same for every repeat. Amounts are whole numbers."""
    if payment["amount_minor"] > 1_000_000:
        return {"success": False, "error_code": "INSUFFICIENT_FUNDS", "error_message": "over the limit"}
    return {"success": True, "rail_reference": f"R-{len(PAYMENTS) + 1}", "rail_code": "ACCEPTED"}


class Rail(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.is_ours(body):
            return
        reference, fence = self.headers["Idempotency-Key"], int(self.headers["Consign-Fence"])
        with LOCK:  # of two dispatches of a reference that come at once, one pays
            if fence < FENCES.get(reference, 0):  # a worker that has lost its lease
                return self.answer(409, {"error_message": "a newer lease has dispatched this"})
            FENCES[reference] = fence
            if reference not in PAYMENTS:
                PAYMENTS[reference] = pay(json.loads(body))
        self.answer(200, PAYMENTS[reference])

    def do_GET(self):
        if not self.is_ours(b""):
            return
        found = PAYMENTS.get(self.path.rsplit("/", 1)[1])
        self.answer(200, found) if found else self.answer(404, {"found": False})

    def is_ours(self, body):
        """Whether consign sent it: else it is answered 401."""
        credential = self.headers.get("Authorization", "")
        is_authorized = not TOKEN or hmac.compare_digest(credential, f"Bearer {TOKEN}")
        if is_authorized and (not SECRET or self.is_signed(body)):
            return True
        self.answer(401, {"error_message": "wrong token or signature"})

    def is_signed(self, body):
        id, at = self.headers.get("webhook-id", ""), self.headers.get("webhook-timestamp", "0")
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        tag = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        expected = "v1," + base64.b64encode(tag).decode()
        signatures = self.headers.get("webhook-signature", "").split()
        is_fresh = abs(time.time() - int(at)) < SKEW_SECONDS
        return is_fresh and any(hmac.compare_digest(expected, one) for one in signatures)

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Rail)
print(f"http://127.0.0.1:{server.server_port}/pay", flush=True)
server.serve_forever()
