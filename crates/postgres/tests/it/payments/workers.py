"""A worker and a producer of payments over plain SQL, as any language could be one.

    workers.py work URL NAME SEED      claims, asks its pretended rail, completes; until killed
    workers.py produce URL NAME COUNT  enqueues COUNT payments from the first, then ends

Both are killed at any moment by the test, and started again.
"""
import os
import random
import select
import sys
import time

import psycopg2
import psycopg2.errors

PARTICIPANTS = 25


def connect(url):
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection


def rail(outbox_id):
    """Idempotent by reference, as a rail must be: the same payment has the same answer."""
    return "rail-" + outbox_id


def complete(cursor, name, rows):
    """Everything in one call, or one call for each; some of it to be tried again."""
    token = rows[0][8]
    states = ["RETRYABLE" if row[7] == 0 and random.random() < 0.05 else "DISPATCHED" for row in rows]
    references = [rail(row[0]) if state == "DISPATCHED" else None for row, state in zip(rows, states)]
    if len(rows) > 10 or random.random() < 0.5:
        cursor.execute(
            "SELECT consign.complete_outbox_attempts(%s, %s, %s::uuid[], %s::consign.outbox_attempt_state[], %s::text[])",
            (token, name, [row[0] for row in rows], states, references),
        )
        return
    for row, state, reference in zip(rows, states, references):
        cursor.execute(
            "SELECT * FROM consign.complete_outbox_attempt(%s, %s, %s, %s, %s)",
            (row[0], token, name, state, reference),
        )


def work(url, name, seed):
    random.seed(seed)
    connection = connect(url)
    cursor = connection.cursor()
    cursor.execute("LISTEN symphony_outbox")
    print("ready", flush=True)
    while True:
        cursor.execute("SELECT * FROM consign.claim_outbox_batch(%s, %s, 4)", (random.randint(1, 40), name))
        rows = cursor.fetchall()
        if not rows:
            # Woken by a new payment; what comes back from retries and crashes is found by looking.
            select.select([connection], [], [], 0.1)
            connection.poll()
            connection.notifies.clear()
            continue
        if random.random() < 0.3:
            cursor.execute(
                "SELECT consign.begin_outbox_attempts(%s, %s, %s::uuid[])", (rows[0][8], name, [row[0] for row in rows])
            )
        # The rail takes its time, so that whoever is killed usually holds something.
        time.sleep(random.random() * 0.06)
        try:
            complete(cursor, name, rows)
        except psycopg2.Error as error:
            if error.pgcode != "P7002":  # lease lost: somebody else has these payments now
                raise
            for row in rows:
                cursor.execute(
                    "SELECT consign.witness_outbox_attempt(%s, %s, %s, 'DISPATCHED', %s)",
                    (row[0], row[8], name, rail(row[0])),
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
