-- Subscribers. SQLite has no schemas: the app's name leads the table's.
CREATE TABLE newsletter_subscriber (
    address    TEXT NOT NULL PRIMARY KEY,
    status     TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'welcomed', 'unreachable')),
    message_id INTEGER NOT NULL UNIQUE
) STRICT, WITHOUT ROWID;
