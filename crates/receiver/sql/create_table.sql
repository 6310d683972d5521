-- The requests that the receiver has applied: one row per message.
CREATE TABLE IF NOT EXISTS consign_received (
    webhook_id  text PRIMARY KEY,
    fence       bigint NOT NULL,
    times       bigint NOT NULL,
    received_at timestamptz NOT NULL
)
