INSERT INTO consign_bench_orders.plain (client, idempotency_key, request_digest, status, expires_at, http_status, request)
VALUES ('local', $1, $2, 'accepted', now() + interval '48 hours', 201, $3::jsonb)
