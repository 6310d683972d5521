CREATE TABLE plain (
    client           TEXT NOT NULL,
    idempotency_key  TEXT NOT NULL,
    request_digest   TEXT NOT NULL,
    result_digest    TEXT,
    status           TEXT NOT NULL CHECK (status IN ('accepted', 'succeeded', 'failed')),
    first_seen_at    INTEGER NOT NULL,
    last_seen_at     INTEGER NOT NULL,
    expires_at       INTEGER NOT NULL,
    http_status      INTEGER NOT NULL,
    request          TEXT NOT NULL CHECK (json_valid(request)),
    PRIMARY KEY (client, idempotency_key)
) STRICT;
CREATE INDEX plain_expires ON plain (expires_at);
