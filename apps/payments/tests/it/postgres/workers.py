"""A worker and a producer of payments over plain SQL, as any language could be one.

    workers.py work URL NAME SEED      claims, calls its rail, completes; until killed
    workers.py produce URL NAME COUNT  enqueues COUNT payments from the first, then ends

Both are killed at any moment by the test, and started again.

The rail is a table of the test's own (rail.sent) that takes whatever it is sent, as often as it is sent:
it recognises no repetition. It has a status query and records that too (rail.queried).
"""
import os
import random
import select
import sys
import time

import psycopg2
import psycopg2.errors

PARTICIPANTS = 25
LEASE_SECONDS = 8
# Nothing is sent when less than this is left of a lease: another worker may be sending by then.
MARGIN_SECONDS = 4


def connect(url):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection


class Rail:
    """Over a connection of its own, so that it has nothing to do with the worker's transactions."""

    def __init__(self, url, name):
        self.cursor = connect(url).cursor()
        self.name = name

    def query(self, outbox_id):
        """The reference of a payment that it was sent, if it was."""
        self.cursor.execute(
            """WITH found AS (SELECT min(reference) AS reference FROM rail.sent WHERE outbox_id = %s),
                    noted AS (INSERT INTO rail.queried (outbox_id, found) SELECT %s, reference IS NOT NULL FROM found)
               SELECT reference FROM found""",
            (outbox_id, outbox_id),
        )
        return self.cursor.fetchone()[0]

    def send(self, outbox_id):
        self.cursor.execute(
            "INSERT INTO rail.sent (outbox_id, worker) VALUES (%s, %s) RETURNING reference", (outbox_id, self.name)
        )
        return self.cursor.fetchone()[0]


def pay(rail, row):
    """The result of one payment: its state, its reference, its error, whether that leaves a doubt."""
    outbox_id, attempts, in_doubt = row["outbox_id"], row["attempt_count"], row["in_doubt"]
    if in_doubt:
        reference = rail.query(outbox_id)
        if reference is not None:
            return "DISPATCHED", reference, None, None
    chance = random.random()
    if attempts < 5 and chance < 0.03:
        return "RETRYABLE", None, "RAIL_BUSY", False  # refused, and nothing was sent
    reference = rail.send(outbox_id)
    if attempts < 5 and chance < 0.05:
        return "RETRYABLE", None, "DISPATCH_TIMEOUT", None  # its answer was lost
    if attempts < 5 and chance < 0.07:
        return "RETRYABLE", None, "GARBLED", True
    return "DISPATCHED", reference, None, None


def complete(cursor, name, token, results):
    """Everything in one call, or one call for each."""
    if len(results) > 10 or random.random() < 0.5:
        ids, states, references, errors, doubts = (list(column) for column in zip(*results))
        cursor.execute(
            """SELECT consign.complete_outbox_attempts(%s, %s, %s::uuid[], %s::consign.outbox_attempt_state[], %s::text[],
                   p_error_codes => %s::text[], p_in_doubt => %s::boolean[])""",
            (token, name, ids, states, references, errors, doubts),
        )
        return
    for outbox_id, state, reference, error, doubt in results:
        cursor.execute(
            "SELECT consign.complete_outbox_attempt(%s, %s, %s, %s, %s, p_error_code => %s, p_in_doubt => %s)",
            (outbox_id, token, name, state, reference, error, doubt),
        )


def work(url, name, seed):
    random.seed(seed)
    connection = connect(url)
    cursor = connection.cursor()
    cursor.execute("LISTEN symphony_outbox")
    rail = Rail(url, name)
    print("ready", flush=True)
    while True:
        # Some call begin before the dispatch; for the others the claim presumed it.
        says_so = random.random() < 0.3
        since = time.monotonic()
        cursor.execute(
            "SELECT * FROM consign.claim_outbox_batch(%s, %s, %s, %s)", (random.randint(1, 40), name, LEASE_SECONDS, not says_so)
        )
        columns = [column.name for column in cursor.description]
        rows = [dict(zip(columns, row)) for row in cursor.fetchall()]
        if not rows:
            # Woken by a new payment; what comes back from retries and crashes is found by looking.
            select.select([connection], [], [], 0.1)
            connection.poll()
            connection.notifies.clear()
            continue
        token = rows[0]["lease_token"]
        results = []
        try:
            for row in rows:
                if time.monotonic() > since + LEASE_SECONDS - MARGIN_SECONDS:
                    break
                if says_so:
                    cursor.execute("SELECT consign.begin_outbox_attempts(%s, %s, ARRAY[%s]::uuid[])", (token, name, row["outbox_id"]))
                results.append((row["outbox_id"], *pay(rail, row)))
                # The rail takes its time, so that a killed worker usually has a lease.
                time.sleep(random.random() * 0.01)
            if results:
                complete(cursor, name, token, results)
            if len(results) < len(rows):
                cursor.execute("SELECT consign.release_outbox_lease(%s, %s)", (token, name))
        except psycopg2.Error as error:
            if error.pgcode != "P7002":  # lease lost: another worker has these payments now
                raise
            for outbox_id, state, reference, code, _ in results:
                cursor.execute(
                    "SELECT consign.record_late_outbox_attempt(%s, %s, %s, %s, %s, p_error_code => %s)",
                    (outbox_id, token, name, state, reference, code),
                )


def produce(url, name, count):
    """Under the same keys each time, so that starting again repeats what was done; some roll back."""
    connection = connect(url)
    connection.autocommit = False
    cursor = connection.cursor()
    for first in range(0, count, 10):
        for n in range(first, min(first + 10, count)):
            cursor.execute(
                "SELECT * FROM consign.enqueue_payment_outbox(%s, %s, %s, 'PAYMENT', %s)",
                (f"{name}-{n}", f"participant-{(first // 10) % PARTICIPANTS}", "key", '{"amount_minor": %d}' % (n + 1)),
            )
        if random.random() < 0.1:
            connection.rollback()
            for n in range(first, min(first + 10, count)):
                cursor.execute(
                    "SELECT * FROM consign.enqueue_payment_outbox(%s, %s, %s, 'PAYMENT', %s)",
                    (f"{name}-{n}", f"participant-{(first // 10) % PARTICIPANTS}", "key", '{"amount_minor": %d}' % (n + 1)),
                )
        connection.commit()
    print("produced", flush=True)


if __name__ == "__main__":
    role, url, name, last = sys.argv[1:]
    try:
        {"work": work, "produce": produce}[role](url, name, int(last))
    except BrokenPipeError:
        os._exit(1)
