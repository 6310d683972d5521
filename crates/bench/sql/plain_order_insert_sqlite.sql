INSERT INTO plain (client, idempotency_key, request_digest, status, first_seen_at, last_seen_at, expires_at, http_status, request)
VALUES ('local', $1, $2, 'accepted', unixepoch(), unixepoch(), unixepoch() + 172800, 201, $3)
