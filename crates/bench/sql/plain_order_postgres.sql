CREATE SCHEMA consign_bench_orders;
CREATE TABLE consign_bench_orders.plain (
    client           text NOT NULL,
    idempotency_key  text NOT NULL,
    request_digest   text NOT NULL,
    result_digest    text,
    status           text NOT NULL CHECK (status IN ('accepted', 'succeeded', 'failed')),
    first_seen_at    timestamptz NOT NULL DEFAULT now(),
    last_seen_at     timestamptz NOT NULL DEFAULT now(),
    expires_at       timestamptz NOT NULL,
    http_status      int NOT NULL,
    request          jsonb NOT NULL,
    PRIMARY KEY (client, idempotency_key)
);
CREATE INDEX plain_expires ON consign_bench_orders.plain (expires_at);
