-- Signs of life: which processes there are, and what they have done lately. Kept for a day, for those
-- who watch; nothing that is delivered depends on them.

CREATE TABLE process (
    name       TEXT PRIMARY KEY,
    version    TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    queues      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE pulse (
    minute    INTEGER NOT NULL,
    queue      TEXT NOT NULL,
    delivered INTEGER NOT NULL,
    retried   INTEGER NOT NULL,
    dead      INTEGER NOT NULL,
    uncertain INTEGER NOT NULL,
    took_ms   INTEGER NOT NULL,
    PRIMARY KEY (minute, queue)
) STRICT, WITHOUT ROWID;
